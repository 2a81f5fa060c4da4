import fc from 'fast-check';
import { expect, test } from 'vitest';
import { addChannelTo, removeChannelFrom } from '../../../src/settings/edit-json.ts';

const CHANNEL = '{ "kind": "mail", "to": "a@example.org" }';
const channel = JSON.parse(CHANNEL);

test('a new file holds the channel alone, and is gone without it', () => {
  const made = addChannelTo(null, CHANNEL);
  expect(made).toBe(`{\n  "alerts": {\n    "channels": [\n      ${CHANNEL}\n    ]\n  }\n}\n`);
  expect(removeChannelFrom(made, 0)).toBeNull();
  const two = addChannelTo(made, CHANNEL);
  expect(two).toContain(`      ${CHANNEL},\n      ${CHANNEL}\n    ]`);
  expect(removeChannelFrom(two, 1)).toBe(made);
  expect(removeChannelFrom(two, 0)).toBe(made);
});

test.each([
  '{}',
  '{ }\n',
  '{"umask":"077"}',
  '{\n\t"umask": "077"\n}\n',
  '{\r\n  "umask": "077"\r\n}',
  '{ "alerts": {} }',
  '{\n  "alerts": { "after": 2 },\n  "umask": "077"\n}\n',
  '{\n  "alerts": {\n    "after": 2,\n    "quiet": "22:00-07:00"\n  }\n}',
  '{"alerts":{"channels":[]}}',
  '{ "alerts": { "channels": [ ] } }',
  '{\n "alerts": {\n  "channels": [{"kind":"command","run":"echo \\"]}\\""}]\n }\n}',
  '{\n "env": { "A": "}, \\\\", "alerts": "[" },\n "alerts": {\n  "channels": [\n   {"kind":"mail","to":"b@x.org"},\n   {"kind":"mail","to":"c@x.org"}\n  ]\n }\n}',
])('%j gets a channel and loses it again, byte for byte', (source) => {
  const before = JSON.parse(source);
  const channels = before.alerts?.channels ?? [];
  const edited = addChannelTo(source, CHANNEL);
  expect(JSON.parse(edited)).toEqual({ ...before, alerts: { ...before.alerts, channels: [...channels, channel] } });
  expect(removeChannelFrom(edited, channels.length)).toBe(source);
});

test('whatever else a file holds stays as it is', () => {
  const alerts = fc.record(
    { channels: fc.array(fc.constant({ kind: 'mail', to: 'b@x.org' })), after: fc.nat() },
    { requiredKeys: [] },
  );
  const settings = fc.record({ other: fc.jsonValue(), alerts, more: fc.jsonValue() }, { requiredKeys: [] });
  fc.assert(
    fc.property(settings, fc.constantFrom(0, 1, 2, 4, '\t'), (value, indent) => {
      const source = JSON.stringify(value, null, indent);
      const before = JSON.parse(source);
      const channels = before.alerts?.channels ?? [];
      const edited = addChannelTo(source, CHANNEL);
      expect(JSON.parse(edited)).toEqual({ ...before, alerts: { ...before.alerts, channels: [...channels, channel] } });
      expect(removeChannelFrom(edited, channels.length)).toBe(source);
    }),
  );
});
