import { pauseKinds } from '../../store/words.ts';
import { record, shown } from '../../system/base/record.ts';

/** What keeps scripts, tiers or jobs from being run. */
export const pauseRecord = record('Pause', {
  name: shown.text.about('`*`, a tier, a script, `queue`, or `queue/` and a pattern of job names'),
  kind: shown.words(pauseKinds),
  until: shown.instant.orNull.from('until').about('Null: until it is resumed'),
  since: shown.instant.from('createdAt'),
});

/** What nobody is told of. */
export const muteRecord = record('Mute', {
  name: shown.text,
  until: shown.instant.orNull.from('until'),
  since: shown.instant.from('createdAt'),
});
