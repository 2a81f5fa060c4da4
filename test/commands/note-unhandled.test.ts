import { expect, test } from 'vitest';
import { describeUnhandled } from '../../src/commands/shared/names.ts';

test.each([
  ['mail/welcom', ['mail/welcome', 'export'], 'did you mean mail/welcome?'],
  ['welcome', ['export', 'mail/welcome'], 'did you mean mail/welcome?'],
  ['mail/welcom?user=7', ['mail/welcome'], 'did you mean mail/welcome?'],
  ['other', ['mail/welcome'], 'has no handler for other here, so it waits for one.'],
  ['a\u001b[2Jb', [], 'has no handler for ab here'],
])('%j among %j', (name, handlers, text) => {
  expect(describeUnhandled(name, handlers)).toMatch(/^Note: jobs\/queue\//);
  expect(describeUnhandled(name, handlers)).toContain(text);
});
