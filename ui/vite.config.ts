import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// What is loaded when it is needed, and small: together it is a quarter smaller than its parts.
const LATER = /\/src\/(pages\/(edit|lab|runs|job\/calendar)\/|pages\/NotFound|pages\/jobs\/FirstJob|pages\/job\/(Backfill|RestoreD|RunD|Definition|Diff|Versions|Schedule|Why|parameters)|shell\/(Help|Palette|Tenants)|parts\/(ScheduleTimes|ZoneField))/;

// The build repeats: no date, version or random name goes into it.
export default defineConfig({
  base: './',
  plugins: [svelte({ compilerOptions: { runes: true, discloseVersion: false, cssHash: ({ hash, css }) => `s${hash(css).slice(0, 4)}` } })],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    cssCodeSplit: true,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: 'later', test: LATER }] } } },
  },
});
