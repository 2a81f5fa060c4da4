import { pauseKinds } from '../../store/words.ts';
import { person, record, shown } from '../../system/base/record.ts';

/** A pause of scripts, tiers or jobs. */
export const pauseRecord = record('Pause', {
  name: shown.text.like('mail/welcome').about('`*`, a tier, a script, `queue`, or `queue/` and a pattern of job names'),
  kind: shown.words(pauseKinds),
  until: shown.instant.orNull.from('until').about('Null: until it is resumed'),
  since: shown.instant.from('createdAt'),
  by: person.orNull.about('Who has paused it'),
});

/** A mute: incidents of this name are not reported. */
export const muteRecord = record('Mute', {
  name: shown.text.like('mail/welcome'),
  until: shown.instant.orNull.from('until'),
  since: shown.instant.from('createdAt'),
});
