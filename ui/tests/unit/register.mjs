// Lets Node.js read TypeScript: types are taken away, nothing else is changed.
import { register } from 'node:module';

register('./typescript.mjs', import.meta.url);
