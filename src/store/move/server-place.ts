import { MOVED_SQLSTATE } from '../server/connect/describe-failure.ts';
import { type DatabaseTarget, nameOfDatabase } from '../server/connect/url.ts';
import { migrate, moveVersions } from '../server/migrate.ts';
import { openSession } from '../server/open.ts';
import type { ServerSession } from '../server/session.ts';
import { lockName } from '../shared/sql/dialect.ts';
import { MoveRefused, type PlaceState, placeOn, type SourcePlace, type TargetPlace } from './place.ts';

/** Longest wait for an answer, and longest rest while the other place is asked, in milliseconds. */
const LONGEST_MS = 8 * 60 * 60_000;

/** Rows of `schema_version` keep everybody out of a log that was moved, or is being moved. */
type Mark = keyof typeof moveVersions;

export async function openServerPlace(target: DatabaseTarget): Promise<SourcePlace & TargetPlace> {
  const name = nameOfDatabase(target);
  const sql = texts[target.engine];
  const session = await openSession(target, { idleMs: LONGEST_MS, silenceMs: LONGEST_MS });
  let isFilling = false;
  const demandAlone = async (): Promise<void> => {
    const row = await session.first<{ readonly got: number }>(sql.tryLock);
    if (Number(row?.got) === 1) return;
    throw new MoveRefused(`Another \`npx folder-runner migrate\` is copying into ${name}; wait for its end.`);
  };
  session.onReconnect = async () => {
    if (sql.mayRest !== null) await session.run(sql.mayRest, [], 'none');
    if (isFilling) await demandAlone();
  };
  const mark = (what: Mark): Promise<void> =>
    session.ask(async () => {
      if (await isMarked(session, what)) return;
      await session.run('insert into schema_version (version) values (?)', [moveVersions[what]]);
    });
  const clear = async (what: Mark): Promise<void> => {
    if (what === 'moved') for (const text of sql.open) await session.ask(() => session.run(text));
    await session.ask(() => session.run('delete from schema_version where version = ?', [moveVersions[what]]));
  };
  const state = await findState(session, sql).catch(async (error) => {
    await session.close();
    throw error;
  });
  return {
    ...placeOn(() => session, { engine: target.engine, name, state }),
    // Before anything else is looked at: whoever connects from now on is turned away.
    freeze: () => mark('moved'),
    shut: async () => {
      for (const text of sql.shut) await session.ask(() => session.run(text));
    },
    thaw: () => clear('moved'),
    setAside: () => mark('moved'),
    reopen: async () => {
      if (state === 'moved') await clear('moved');
      return state === 'moved';
    },
    begin: async () => {
      if (state === 'none') await migrate(session, target);
      await session.ask(demandAlone);
      isFilling = true;
      if (state === 'filling') return;
      await mark('filling');
      // A log that was moved away from here is replaced.
      await clear('moved');
    },
    finish: () => clear('filling'),
    close: () => session.close(),
  };
}

async function isMarked(session: ServerSession, what: Mark): Promise<boolean> {
  const text = 'select 1 as one from schema_version where version = ?';
  return (await session.first(text, [moveVersions[what]])) !== undefined;
}

async function findState(session: ServerSession, { schema }: ServerTexts): Promise<PlaceState> {
  return await session.ask(async () => {
    const made = await session.first(
      `select 1 as one from information_schema.tables where table_schema = ${schema} and table_name = 'schema_version'`,
    );
    if (made === undefined) return 'none';
    if (await isMarked(session, 'filling')) return 'filling';
    if (await isMarked(session, 'moved')) return 'moved';
    for (const table of ['jobs', 'workers', 'runs']) {
      if ((await session.first(`select 1 as one from "${table}" limit 1`)) !== undefined) return 'log';
    }
    return 'none';
  });
}

interface ServerTexts {
  readonly schema: string;
  /** Only one call at a time fills a database. */
  readonly tryLock: string;
  /** Lets a connection rest for as long as the other place may take. */
  readonly mayRest: string | null;
  /** Closes tables to those who are connected already, and opens them again. */
  readonly shut: readonly string[];
  readonly open: readonly string[];
}

/** Tables to which every change of the log adds a row. */
const growing = ['jobs', 'workers', 'runs', 'events', 'pauses'];

const texts: Readonly<Record<DatabaseTarget['engine'], ServerTexts>> = {
  postgres: {
    schema: 'current_schema()',
    tryLock: `select pg_try_advisory_lock(hashtext('folder-runner move ' || current_schema())) as got`,
    mayRest: null,
    shut: [
      `create or replace function refuse_moved() returns trigger language plpgsql as
        $$ begin raise exception 'the log was moved away' using errcode = '${MOVED_SQLSTATE}'; end $$`,
      ...growing.map(
        (table) => `create or replace trigger moved_${table} before insert or update on ${table}
          for each statement execute function refuse_moved()`,
      ),
    ],
    open: ['drop function if exists refuse_moved() cascade'],
  },
  mysql: {
    schema: 'database()',
    tryLock: `select get_lock(${lockName('folder-runner move')}, 0) as got`,
    mayRest: `set session wait_timeout = ${LONGEST_MS / 1_000}`,
    // A trigger needs a right that shared hosts do not give.
    shut: [],
    open: [],
  },
};
