// Prints the size of each file of the build, and fails above the budget of docs/decisions.
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const FIRST_LOAD_MAX = 70 * 1024;
const ALL_MAX = 150 * 1024;

const list = (folder) =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? list(path) : [path];
  });
const page = readFileSync('dist/index.html', 'utf8');
let first = 0;
let all = 0;
for (const path of list('dist')) {
  const size = gzipSync(readFileSync(path), { level: 9 }).length;
  const isFirst = path.endsWith('index.html') || page.includes(path.replace(/^dist\//, ''));
  all += size;
  if (isFirst) first += size;
  console.log(`${String(size).padStart(7)} B gzip  ${path}${isFirst ? '  (first load)' : ''}`);
}
console.log(`first load ${first} B of ${FIRST_LOAD_MAX}, all ${all} B of ${ALL_MAX}`);
if (first > FIRST_LOAD_MAX || all > ALL_MAX) {
  console.error('error: the dashboard is larger than its budget');
  process.exit(1);
}
