import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fallbackStateFolderOf } from '../../config/fallback-state-folder.ts';
import type { StateFolder } from '../../config/state-folder.ts';
import { readHolderFile } from '../../lock/lock-holder.ts';
import { checkLiveness } from '../../process/process-identity.ts';
import { hasSpool, listUnreadableSpoolFiles } from '../../store/spool/spool-files.ts';
import { countOf } from './amounts.ts';
import { type Check, type Finding, note, ok, warning } from './finding.ts';

export const checkLeftovers: Check = {
  name: 'leftovers',
  run: ({ root, state }) => {
    const findings = [
      ...findBrokenLogs(state),
      ...[state, fallbackStateFolderOf(root)].flatMap(findSpool),
      ...findDeadLocks(state),
    ];
    return findings.length > 0 ? findings : [ok('none')];
  },
};

function findBrokenLogs({ path }: StateFolder): Finding[] {
  const logs = namesIn(path).filter(isBrokenLog);
  return logs.map((name) =>
    warning(
      `.runner/${name} was set aside because it was broken`,
      'Delete it with its -wal and -shm when nobody misses its history; `sqlite3 <file> .recover` saves what can be saved.',
    ),
  );
}

/** Without what belongs to it. */
function isBrokenLog(name: string): boolean {
  return name.startsWith('activity.db.broken-') && !/-(?:wal|shm|journal)$/.test(name);
}

function findSpool(state: StateFolder): Finding[] {
  const unreadable = listUnreadableSpoolFiles(state).length;
  return [
    ...(hasSpool(state)
      ? [
          note(
            `runs wait in ${state.spool} to be taken into the log`,
            'The next pass that can open the log takes them in.',
          ),
        ]
      : []),
    ...(unreadable > 0
      ? [
          warning(
            `${countOf(unreadable, 'file')} in ${state.spool} could not be taken into the log`,
            'Look into what ends in .unreadable, one line of JSON for each run, then delete it.',
          ),
        ]
      : []),
  ];
}

function findDeadLocks({ locks }: StateFolder): Finding[] {
  const tiers = namesIn(locks).filter((name) => name.endsWith('.lock'));
  return tiers.flatMap((name) => {
    const pid = deadHolder(join(locks, name));
    if (pid === null) return [];
    const tier = name.slice(0, -'.lock'.length);
    return [
      note(
        `the lock of ${tier} was left by pid ${pid}, which is dead`,
        'The next pass takes it over.',
      ),
    ];
  });
}

/** Only looked at: what clears a lock away is a pass that takes it. */
function deadHolder(lock: string): number | null {
  const files = namesIn(lock).filter((name) => name.endsWith('.json'));
  const holders = files.map((name) => readHolderFile(join(lock, name))?.holder ?? null);
  return holders.find((holder) => holder !== null && checkLiveness(holder) === 'dead')?.pid ?? null;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
