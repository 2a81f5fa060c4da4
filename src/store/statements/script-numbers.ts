import type { RunStart, ScriptNumber } from '../shared/run-rows.ts';
import { putRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';

type ScriptOfRun = Pick<RunStart, 'script' | 'contentHash' | 'startedAt'>;

/** Numbers of names and content hashes: they are few, and never change. */
export class ScriptNumbers {
  readonly #db: Statements;
  readonly #scripts = new Map<string, number>();
  readonly #versions = new Map<string, number>();

  constructor(db: Statements) {
    this.#db = db;
  }

  /** The numbers of the script and the version of each run; a script or version that the log lacks is added. */
  async of(runs: readonly ScriptOfRun[]): Promise<ScriptNumber[]> {
    const missing = runs.filter((run) => this.known(run) === null);
    if (missing.length > 0) {
      await this.#read(missing);
      // Another machine may add them just now: whoever comes second reads what the first one has added.
      await this.#addScripts(missing);
      await this.#addVersions(missing);
    }
    return runs.map((run) => this.known(run) as ScriptNumber);
  }

  /** Null: it was not looked for yet. */
  known({ script, contentHash }: ScriptOfRun): ScriptNumber | null {
    const scriptId = this.#scripts.get(script);
    if (scriptId === undefined) return null;
    const versionId = contentHash === null ? null : this.#versions.get(keyOf(scriptId, contentHash));
    return versionId === undefined ? null : { scriptId, versionId };
  }

  async #read(runs: readonly ScriptOfRun[]): Promise<void> {
    const wanted = runs.filter((run) => this.known(run) === null);
    if (wanted.length === 0) return;
    const { isIn } = this.#db.dialect;
    const hashes = [...new Set(wanted.map(({ contentHash }) => contentHash ?? ''))];
    const names = [...new Set(wanted.map(({ script }) => script))];
    const rows = await this.#db.all<{ scriptId: number; name: string; versionId: number | null; hash: string | null }>(
      `select scripts.id as "scriptId", name, script_versions.id as "versionId", content_hash as hash from scripts
       left join script_versions on script_id = scripts.id and ${isIn('content_hash')} where ${isIn('name')}`,
      [hashes, names],
    );
    for (const { scriptId, name, versionId, hash } of rows) {
      this.#scripts.set(name, scriptId);
      if (versionId !== null && hash !== null) this.#versions.set(keyOf(scriptId, hash), versionId);
    }
  }

  async #addScripts(runs: readonly ScriptOfRun[]): Promise<void> {
    const missing = new Set(runs.flatMap(({ script }) => (this.#scripts.has(script) ? [] : script)));
    if (missing.size === 0) return;
    const rows = [...missing].sort().map((name) => [name]);
    await putRows(this.#db, 'scripts', ['name'], rows, { key: ['name'], set: [] });
    await this.#read(runs);
  }

  async #addVersions(runs: readonly ScriptOfRun[]): Promise<void> {
    const missing = new Map<string, readonly [scriptId: number, hash: string | null, firstRunAt: number]>();
    for (const run of runs.toReversed()) {
      if (this.known(run) !== null) continue;
      const scriptId = this.#scripts.get(run.script) as number;
      missing.set(keyOf(scriptId, run.contentHash ?? ''), [scriptId, run.contentHash, run.startedAt]);
    }
    if (missing.size === 0) return;
    const rows = [...missing.values()].sort(([one], [other]) => one - other);
    const key = ['script_id', 'content_hash'];
    await putRows(this.#db, 'script_versions', [...key, 'first_run_at'], rows, { key, set: [] });
    await this.#read(runs);
  }
}

const keyOf = (scriptId: number, contentHash: string): string => `${scriptId} ${contentHash}`;
