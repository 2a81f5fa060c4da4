import { EVERYTHING } from '../../queue/pauses.ts';
import { type Check, note, ok } from './finding.ts';

export const checkPauses: Check = {
  name: 'pauses',
  run: async ({ log }) => {
    const pauses = (await log()).facts?.pauses ?? [];
    if (pauses.length === 0) return [ok('none')];
    return pauses.map(({ name, until }) => {
      const what = name === EVERYTHING ? 'everything' : name;
      const end = until === null ? 'until it is resumed' : `until ${new Date(until).toISOString()}`;
      const command = name === EVERYTHING ? 'runner resume' : `runner resume ${name}`;
      return note(`${what} is paused ${end}`, `\`${command}\` ends it.`);
    });
  },
};
