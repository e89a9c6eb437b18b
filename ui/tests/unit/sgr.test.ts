import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findLines } from '../../src/log/lines.ts';
import { segments, Sgr } from '../../src/log/sgr.ts';

const shown = (text: string) => new Sgr().line(text).map((run) => [run.text, run.color ?? run.classes]);

test('colours become classes', () => {
  assert.deepEqual(shown('a\x1b[31mb\x1b[1mc\x1b[0md'), [['a', ''], ['b', 'sgr-1'], ['c', 'sgr-1 sgr-bold'], ['d', '']]);
  assert.deepEqual(shown('\x1b[92mok\x1b[39m.'), [['ok', 'sgr-10'], ['.', '']]);
  assert.deepEqual(shown('\x1b[38;5;196mx'), [['x', 'rgb(255 0 0)']]);
  assert.deepEqual(shown('\x1b[38;2;1;2;300mx'), [['x', 'rgb(1 2 255)']]);
  assert.deepEqual(shown('\x1b[48;5;3mx'), [['x', '']]);
});

test('colours last over lines', () => {
  const sgr = new Sgr();
  sgr.line('\x1b[33mbegin');
  assert.deepEqual(sgr.line('go on').map((run) => run.classes), ['sgr-3']);
});

test('other sequences vanish and unseen characters are seen', () => {
  assert.deepEqual(shown('\x1b[2Ja\x1b]0;title\x07b\x1b[Kc').map(([text]) => text), ['a', 'b', 'c']);
  assert.deepEqual(shown('a\x00b\x7f').map(([text]) => text), ['a␀b␡']);
  assert.deepEqual(shown('\u202Egnp.exe').map(([text]) => text), ['⟨U+202E⟩gnp.exe']);
  assert.deepEqual(shown('<img src=x>').map(([text]) => text), ['<img src=x>']);
});

test('a line that writes over itself shows its last text', () => {
  assert.deepEqual(shown('10 %\r50 %\r100 %\r').map(([text]) => text), ['100 %']);
});

test('lines are found whatever the case', () => {
  assert.deepEqual(findLines(['Needle', 'hay', 'NEEDLES'], 'needle'), [0, 2]);
  assert.deepEqual(findLines(['a'], ''), []);
});

test('grounds are colours too, and inverse swaps them', () => {
  const grounds = (text: string) => new Sgr().line(text).map((run) => run.background ?? '');
  assert.deepEqual(grounds('\x1b[41mx\x1b[49my'), ['color-mix(in srgb, var(--sgr-1) 30%, transparent)', '']);
  assert.deepEqual(grounds('\x1b[48;2;1;2;3mx\x1b[0my'), ['rgb(1 2 3)', '']);
  assert.deepEqual(new Sgr().line('\x1b[7mx').map((run) => [run.color, run.background]), [['var(--log-bg)', 'var(--text)']]);
});

test('a progress bar can be shown as a whole', () => {
  assert.deepEqual(segments('10 %\r\x1b[32m50 %\x1b[0m\r100 %\r'), ['10 %', '50 %', '100 %']);
});
