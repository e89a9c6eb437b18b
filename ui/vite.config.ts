import { readdirSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

// What is loaded when it is needed: one file is a tenth smaller than its parts, and loaded once.
const LATER = /\/src\/(pages\/(edit|lab|runs|login|flow|admin|audit|dead|cluster|sql|queues|job\/calendar)\/|pages\/(NotFound|flow|operate)|pages\/jobs\/(FirstJob|Batch)|pages\/job\/(Around|Backfill|Delete|RestoreD|RunD|Definition|Diff|Versions|Schedule|Why|parameters)|pages\/run\/Parts|shell\/(Help|Palette|Tenants|copyAs)|log\/(Window|blocks)|parts\/(ScheduleTimes|ZoneField|Views|views|csv))/;

// The runtime contains custom elements, which no component here is.
const withoutCustomElements: Plugin = {
  name: 'without-custom-elements',
  enforce: 'pre',
  load(id) {
    if (id.endsWith('/internal/client/dom/elements/custom-element.js')) return 'export const create_custom_element = undefined;';
    return undefined;
  },
};

// Errors of the runtime name a page on the web; their code is enough.
const withShortErrors: Plugin = {
  name: 'with-short-errors',
  transform: (code, id) => (/\/internal\/client\/(errors|warnings)\.js$/.test(id) ? { code: code.replaceAll('https://svelte.dev/e/', ''), map: null } : undefined),
};

// The pages are never rendered by a server, no component is of an earlier kind, and none waits for
// promises in its markup: what the runtime has for these cases falls away.
const NEVER = /\b(hydrating|legacy_mode_flag|async_mode_flag|tracing_mode_flag)\b/g;
const withoutUnusedModes: Plugin = {
  name: 'without-unused-modes',
  transform: (code, id) => {
    if (!id.includes('/svelte/src/internal/') || /\/(hydration|flags\/index)\.js$/.test(id)) return undefined;
    const parts = code.split(/((?:import|export)\s*\{[^}]*\}[^;]*;)/);
    return { code: parts.map((part, i) => (i % 2 ? part : part.replace(NEVER, 'false'))).join(''), map: null };
  },
};

// Components call these for pages that a server has rendered; without one they do nothing.
const withoutHydration: Plugin = {
  name: 'without-hydration',
  enforce: 'post',
  transform: (code, id) => (id.endsWith('.svelte') ? { code: code.replace(/^\s*\$\.(?:reset|next|remove_input_defaults|remove_textarea_child)\([^()]*\);\n/gm, ''), map: null } : undefined),
};

// The class of a component's own styles is its place among the components: short, and the same in every build.
const components = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.svelte')).sort();
const cssHash = ({ filename }: { filename: string }): string => {
  const place = components.findIndex((name) => filename.endsWith(`/src/${name}`) || filename === `src/${name}`);
  if (place < 0) throw new Error(`${filename} is not among the components`);
  return `s${place.toString(36)}`;
};

// Nothing is preloaded: one file is loaded later, and its styles are there already.
const withoutPreload: Plugin = {
  name: 'without-preload',
  enforce: 'pre',
  load: (id) => (id.includes('vite/preload-helper') ? 'export const __vitePreload = (load) => load();' : undefined),
};

// The build repeats: no date, version or random name goes into it. One file of styles is smaller than
// its parts, and scripts that are loaded later need none of their own.
export default defineConfig({
  base: './',
  plugins: [withoutCustomElements, withoutPreload, withShortErrors, withoutUnusedModes, withoutHydration, svelte({ compilerOptions: { runes: true, discloseVersion: false, cssHash } })],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    modulePreload: false,
    sourcemap: false,
    reportCompressedSize: false,
    rolldownOptions: { output: { codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: 'later', test: LATER, priority: 2 }, { name: 'first', test: /./, priority: 1 }] } } },
  },
});
