import { pauseKinds } from '../../store/words.ts';
import { field, record } from '../../system/base/record.ts';

/** What keeps scripts, tiers or jobs from being run. */
export const pauseRecord = record('Pause', {
  name: field.text.about('`*`, a tier, a script, `queue`, or `queue/` and a pattern of job names'),
  kind: field.words(pauseKinds),
  until: field.instant.orNull.from('until').about('Null: until it is resumed'),
  since: field.instant.from('createdAt'),
});

/** What nobody is told of. */
export const muteRecord = record('Mute', {
  name: field.text,
  until: field.instant.orNull.from('until'),
  since: field.instant.from('createdAt'),
});
