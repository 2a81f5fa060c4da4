import { resumeCommandOf, wordsOfPaused } from '../../queue/pause-names.ts';
import { type Check, note, ok, unknownWithoutLog } from './finding.ts';

export const checkPauses: Check = {
  name: 'pauses',
  run: async ({ log, isLogUnread }) => {
    if (await isLogUnread()) return [unknownWithoutLog];
    const pauses = (await log()).facts?.pauses ?? [];
    if (pauses.length === 0) return [ok('none')];
    return pauses.map(({ name, kind, until }) => {
      const end = until === null ? 'until it is resumed' : `until ${new Date(until).toISOString()}`;
      const what = kind === 'fuse' ? 'fails instead of running' : 'is paused';
      return note(`${wordsOfPaused(name)} ${what} ${end}`, `\`${resumeCommandOf(name)}\` ends it.`);
    });
  },
};
