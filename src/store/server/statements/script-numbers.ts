import type { RunStart } from '../../contract/runs.ts';
import type { ScriptNumber } from '../../shared/run-rows.ts';
import { putRows } from '../../shared/sql/rows.ts';
import type { ServerStatements } from '../session.ts';

type ScriptOfRun = Pick<RunStart, 'script' | 'contentHash' | 'startedAt'>;

/** Numbers of names and content hashes: they are few, and never change. */
export class ScriptNumbers {
  readonly #db: ServerStatements;
  readonly #scripts = new Map<string, number>();
  readonly #versions = new Map<string, number>();

  constructor(db: ServerStatements) {
    this.#db = db;
  }

  /** The numbers of the script and the version of each run; a script or version that the log lacks is added. */
  async of(runs: readonly ScriptOfRun[]): Promise<ScriptNumber[]> {
    await this.#learnScripts(new Set(runs.map(({ script }) => script)));
    const scriptIds = runs.map(({ script }) => this.#scripts.get(script) as number);
    const versions = runs.flatMap(({ contentHash, startedAt }, index) =>
      contentHash === null ? [] : [{ scriptId: scriptIds[index] as number, contentHash, startedAt }],
    );
    await this.#learnVersions(versions);
    return runs.map((run) => this.known(run) as ScriptNumber);
  }

  /** Null: it was not looked for yet. */
  known({ script, contentHash }: ScriptOfRun): ScriptNumber | null {
    const scriptId = this.#scripts.get(script);
    if (scriptId === undefined) return null;
    const versionId = contentHash === null ? null : this.#versions.get(keyOf({ scriptId, contentHash }));
    return versionId === undefined ? null : { scriptId, versionId };
  }

  async #learnScripts(wanted: ReadonlySet<string>): Promise<void> {
    const missing = () => [...wanted].filter((name) => !this.#scripts.has(name)).sort();
    const read = async (): Promise<void> => {
      const names = missing();
      if (names.length === 0) return;
      const text = `select id, name from scripts where ${this.#db.dialect.isIn('name')}`;
      for (const { id, name } of await this.#db.all<{ id: number; name: string }>(text, [names])) {
        this.#scripts.set(name, id);
      }
    };
    await read();
    // Another machine may add them just now: whoever comes second reads what the first one has added.
    await putRows(
      this.#db,
      'scripts',
      ['name'],
      missing().map((name) => [name]),
      { key: ['name'], set: [] },
    );
    await read();
  }

  async #learnVersions(wanted: readonly Version[]): Promise<void> {
    const missing = () => {
      const others = wanted.filter((version) => !this.#versions.has(keyOf(version)));
      return [...new Map(others.toReversed().map((version) => [keyOf(version), version])).values()];
    };
    const read = async (): Promise<void> => {
      const ids = [...new Set(missing().map(({ scriptId }) => scriptId))];
      if (ids.length === 0) return;
      const { isIn } = this.#db.dialect;
      const hashes = [...new Set(missing().map(({ contentHash }) => contentHash))];
      const rows = await this.#db.all<Omit<Version, 'startedAt'> & { id: number }>(
        `select id, script_id as "scriptId", content_hash as "contentHash" from script_versions
         where ${isIn('script_id')} and ${isIn('content_hash')}`,
        [ids, hashes],
      );
      for (const { id, ...version } of rows) this.#versions.set(keyOf(version), id);
    };
    await read();
    const rows = missing()
      .sort((one, other) => one.scriptId - other.scriptId)
      .map(({ scriptId, contentHash, startedAt }) => [scriptId, contentHash, startedAt]);
    const key = ['script_id', 'content_hash'];
    await putRows(this.#db, 'script_versions', [...key, 'first_run_at'], rows, { key, set: [] });
    await read();
  }
}

interface Version {
  readonly scriptId: number;
  readonly contentHash: string;
  readonly startedAt: number;
}

const keyOf = ({ scriptId, contentHash }: Omit<Version, 'startedAt'>): string => `${scriptId} ${contentHash}`;
