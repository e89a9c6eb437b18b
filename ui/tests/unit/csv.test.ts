import assert from 'node:assert/strict';
import { test } from 'node:test';
import { csv } from '../../src/parts/csv.ts';

test('cells are quoted, and none is a formula', () => {
  const text = csv(['a', 'b'], [['x,y', 'say "hi"'], ['=1+1', -5], ['@cmd', null], ['+1', { a: 1 }], ['two\nlines', true], ['-x', '']]);
  assert.equal(text, 'a,b\r\n"x,y","say ""hi"""\r\n\'=1+1,-5\r\n\'@cmd,\r\n\'+1,"{""a"":1}"\r\n"two\nlines",true\r\n\'-x,\r\n');
});
