import { SCHEMA_VERSION } from '../../store/schema-version.ts';
import { APPLICATION_ID } from '../../store/sqlite/open-database.ts';
import { sizeOf } from './amounts.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';
import type { LogFile } from './log-file.ts';
import type { DoctorPlace } from './place.ts';
import { NO_SQLITE } from './sqlite-command.ts';

export const checkLog: Check = {
  name: 'log',
  run: async (place) => {
    const file = await place.logFile();
    if (file === null) return [note('none yet', 'The first pass makes it: try `runner hourly`.')];
    const flaw = findFlaw(file) ?? (await findOpenFailure(place));
    if (flaw !== null) return [flaw];
    return [
      ok(describeSound(file)),
      ...judgeWriting(file),
      ...(await judgeSize(place, file)),
      ...judgeSchema(file),
    ];
  },
};

function describeSound({ bytes, journalMode, schemaVersion }: LogFile): string {
  const journal = journalMode === null ? '' : `, journal ${journalMode}`;
  return `sound, ${sizeOf(bytes)}${journal}, schema ${schemaVersion}`;
}

const SET_ASIDE =
  'The next pass sets it aside whole and begins a new log; put a copy of `runner backup` in its place to keep the history.';

function findFlaw(file: LogFile): Finding | null {
  if (!file.isRead) return unreadable(file);
  if (file.damages.length > 0) {
    return problem(`damaged: ${file.damages.join('; ').split('\n').join(' ')}`, SET_ASIDE);
  }
  if (file.bytes === 0) return problem('its file is empty, so its history is gone', SET_ASIDE);
  if (file.applicationId !== APPLICATION_ID) {
    return problem(
      '.runner/activity.db is the database of another program',
      'Move it away; the next pass makes a new log.',
    );
  }
  if (file.schemaVersion <= SCHEMA_VERSION) return null;
  return problem(
    `written by a newer runner (schema ${file.schemaVersion}, this one knows ${SCHEMA_VERSION})`,
    'Update the package with `npm install folder-runner@latest`.',
  );
}

const OPEN_UP =
  'Make .runner and what is in it yours and writable (`chmod -R u+rwX .runner`); until then passes run without a log.';

const broken = /not a database|malformed|corrupt/i;

function unreadable({ failure }: LogFile): Finding {
  if (broken.test(failure)) return problem(`broken: ${failure}`, SET_ASIDE);
  if (/locked/.test(failure)) {
    return warning(
      `locked by another process: ${failure}`,
      'Wait until backups and passes are over; see `runner status`.',
    );
  }
  if (failure === NO_SQLITE)
    return warning(`could not be read: ${failure}`, 'See what sqlite says.');
  return problem(`cannot be read: ${failure}`, OPEN_UP);
}

function judgeWriting({ writeFailure }: LogFile): Finding[] {
  if (writeFailure === null) return [];
  return [problem(`can be read, but not be written: ${writeFailure}`, OPEN_UP)];
}

async function findOpenFailure({ log }: DoctorPlace): Promise<Finding | null> {
  const { failure } = await log();
  return failure === null
    ? null
    : problem(failure, 'Put that right; passes run without a log meanwhile.');
}

async function judgeSize({ settings }: DoctorPlace, { bytes }: LogFile): Promise<Finding[]> {
  const most = (await settings().catch(() => null))?.retention.maxDatabaseBytes ?? null;
  if (most === null || bytes <= most) return [];
  return [
    note(
      `larger than the ${sizeOf(most)} that the settings allow`,
      'The next passes prune it step by step; a higher `maxDatabaseSize` keeps more.',
    ),
  ];
}

function judgeSchema({ schemaVersion }: LogFile): Finding[] {
  if (schemaVersion === SCHEMA_VERSION) return [];
  return [
    note(`of an older runner (schema ${schemaVersion})`, 'The next pass brings it up to date.'),
  ];
}
