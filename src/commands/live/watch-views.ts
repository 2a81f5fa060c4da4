import type { LiveSite } from '../../dashboard/site.ts';
import type { Site } from '../../discovery/site.ts';
import { noJobs, readJobs, readStory } from '../../report/model/jobs.ts';
import { readOverview, type ScriptOverview } from '../../report/model/overview.ts';
import { readOutputFrom } from '../../report/model/runs/output-part.ts';
import { selectRunning } from '../../report/model/runs/run.ts';
import { selectRunPage } from '../../report/model/runs/run-pages.ts';
import { type RunWithOutput, readScriptRuns, selectHighestRunId, selectRun } from '../../report/model/runs/runs.ts';
import { readRisesOf } from '../../report/model/runs/script.ts';
import { readStatus, readUnjudged, type Status } from '../../report/model/status.ts';
import { renderJob, renderJobs } from '../../report/terminal/jobs.ts';
import { renderScriptTable } from '../../report/terminal/overview.ts';
import { renderRun, renderRuns, renderRunTable } from '../../report/terminal/runs.ts';
import type { Screen } from '../../report/terminal/screen.ts';
import { renderQueue, renderStatus, renderSummary } from '../../report/terminal/status.ts';
import { isFailure } from '../../store/words.ts';
import { printableLine, printableOutput } from '../../system/base/text.ts';
import { DAY_MS } from '../../system/base/values.ts';

/** The views, each with its subject. */
export type View =
  | { readonly kind: 'scripts' | 'runs' | 'queue' | 'help' }
  /** Null: of what runs now. */
  | { readonly kind: 'output'; readonly run: number | null }
  | { readonly kind: 'script'; readonly script: string }
  | { readonly kind: 'run' | 'job'; readonly id: number };

/** The data of a view: drawn again each second, because ages and durations change. */
export interface Content {
  /** Whether the lines that were selected lead somewhere. */
  readonly isList: boolean;
  draw(screen: Screen): Drawn;
}

export interface Drawn {
  readonly lines: readonly string[];
  /** By line, what opens there. */
  readonly opens: ReadonlyMap<number, View>;
}

/** More nobody goes through line by line. */
const MOST_ROWS = 200;

/** Reads views one after the other, and remembers what came of an output so far. */
export class ViewReader {
  readonly #site: LiveSite;
  readonly #keys: string;
  #output: { readonly run: number; readonly text: string; readonly next: number } | null = null;

  /** @param keys what the view of them shows */
  constructor(site: LiveSite, keys: string) {
    this.#site = site;
    this.#keys = keys;
  }

  async read(view: View): Promise<Content> {
    return await this.#site.read(async (log) => {
      switch (view.kind) {
        case 'help':
          return textBy(() => linesOf(this.#keys.trimStart()));
        case 'scripts':
          return await this.#readScripts(log);
        case 'runs':
          return tableOf(await selectRunPage(await log.view(), { limit: MOST_ROWS }), renderAllRuns, openRun);
        case 'queue':
          return await this.#readQueue(log);
        case 'script':
          return await this.#readScript(log, view.script);
        case 'job':
          return await readJobView(log, view.id);
        case 'run':
          return await this.#readRun(log, view.id);
        case 'output':
          return await this.#readOutput(log, view.run ?? (await findRunToFollow(log)));
      }
    });
  }

  async #readScripts(log: Site): Promise<Content> {
    const { status, problem } = await readStatusOf(log);
    const window = { sinceMs: log.nowMs - DAY_MS, untilMs: log.nowMs + 1 };
    const rises = new Map(status.risen.map(({ script, ...risen }) => [script, risen]));
    const overview = await readOverview(log, { ...window, rises });
    const scripts = overview.scripts.toSorted((one, other) => Number(isFailing(other)) - Number(isFailing(one)));
    return listOf((screen) => {
      const notes = [problem, log.problem].filter((note) => note !== null).map(screen.palette.warning);
      const above = [...notes, ...renderSummary(status, screen), ...linesOf(renderStatus(status, screen)), ''];
      const table = scripts.length === 0 ? [] : renderScriptTable({ ...overview, scripts }, screen);
      const opens = scripts.map(({ script }): View => ({ kind: 'script', script }));
      return { lines: [...above, ...table], opens: from(above.length + 1, opens) };
    });
  }

  async #readQueue(log: Site): Promise<Content> {
    const status = await readUnjudged(log);
    const { store, nowMs } = log;
    const list = store === null ? noJobs : await readJobs(store, { pattern: '*', limit: MOST_ROWS }, nowMs);
    return listOf((screen) => {
      const queue = renderQueue(status.queue, screen);
      const above = queue.length === 0 ? [] : [...queue, ''];
      const opens = list.jobs.map(({ id }): View => ({ kind: 'job', id }));
      return { lines: [...above, ...linesOf(renderJobs(list, screen))], opens: from(above.length + 1, opens) };
    });
  }

  async #readScript(site: Site, script: string): Promise<Content> {
    const window = { sinceMs: 0, untilMs: site.nowMs + 1 };
    const found = await readScriptRuns(await site.view(), script, { ...window, limit: MOST_ROWS });
    const oldest = found.runs.at(-1);
    if (oldest === undefined) return textOfView(`${printableLine(script)} has not run yet.`);
    const rises = await readRisesOf(site, script);
    return listOf((screen) => {
      const lines = linesOf(renderRuns({ ...found, sinceMs: oldest.startedAtMs }, rises, screen));
      // Below the table stands, after an empty line, that it is not all.
      const first = lines.length - found.runs.length - (found.isCut ? 2 : 0);
      return { lines, opens: from(first, found.runs.map(openRun)) };
    });
  }

  async #readRun(log: Site, id: number): Promise<Content> {
    const run = await selectRun(await log.view(), id);
    if (run === null) return textOfView(`There is no run ${id} in the log.`);
    const output = await this.#follow(log, run);
    return textBy((screen) => [...linesOf(renderRun(run, screen)), '', screen.palette.dim('output'), ...output]);
  }

  async #readOutput(log: Site, id: number | null): Promise<Content> {
    const run = id === null ? null : await selectRun(await log.view(), id);
    if (run === null) return textOfView('Nothing has run yet.');
    const output = await this.#follow(log, run);
    return textBy((screen) => [linesOf(renderRun(run, screen))[0] ?? '', '', ...output]);
  }

  /** Lines of the run's output, safe to show. */
  async #follow({ view }: Site, run: RunWithOutput): Promise<string[]> {
    const before = this.#output?.run === run.id ? this.#output : { run: run.id, text: '', next: 0 };
    const part = await readOutputFrom(await view(), run, before.next);
    const text = (part.isAnew ? part.text : before.text + part.text).slice(-MOST_TEXT);
    this.#output = { run: run.id, text, next: part.next };
    return text === '' ? ['(nothing yet)'] : linesOf(printableOutput(text));
  }
}

function isFailing({ presence, lastRun }: ScriptOverview): boolean {
  return presence !== 'gone' && presence !== 'disabled' && lastRun !== null && isFailure(lastRun.outcome);
}

/** The status, and what is wrong with the settings. */
async function readStatusOf(site: Site): Promise<{ readonly status: Status; readonly problem: string | null }> {
  const { settingsProblem: wrong } = await site.jobs();
  const problem = wrong === null ? null : `No call starts anything until the settings are fixed. ${wrong}`;
  return { status: await readStatus(site), problem };
}

const MOST_TEXT = 512 * 1024;

/** The run that began last of those that run; else the newest. */
async function findRunToFollow(site: Site): Promise<number | null> {
  const view = await site.view();
  const running = await selectRunning(view);
  return running.at(-1)?.id ?? (await selectHighestRunId(view.db));
}

async function readJobView(site: Site, id: number): Promise<Content> {
  const story = await readStory(site, id);
  return textBy((screen) => linesOf(renderJob(story, screen)));
}

function openRun({ id }: { readonly id: number }): View {
  return { kind: 'run', id };
}

const renderAllRuns = (runs: Parameters<typeof renderRunTable>[0], screen: Screen): string[] =>
  runs.length === 0 ? ['Nothing has run yet.'] : renderRunTable(runs, screen, true);

function tableOf<Row>(
  rows: readonly Row[],
  render: (rows: readonly Row[], screen: Screen) => string[],
  open: (row: Row) => View,
): Content {
  return listOf((screen) => ({ lines: render(rows, screen), opens: from(1, rows.map(open)) }));
}

const listOf = (draw: Content['draw']): Content => ({ isList: true, draw });

const textBy = (draw: (screen: Screen) => readonly string[]): Content => ({
  isList: false,
  draw: (screen) => ({ lines: draw(screen), opens: new Map() }),
});

/** One sentence. */
export const textOfView = (text: string): Content => textBy(() => [text]);

function from(first: number, opens: readonly View[]): ReadonlyMap<number, View> {
  return new Map(opens.map((open, index) => [first + index, open]));
}

function linesOf(text: string): string[] {
  return text.trimEnd().split('\n');
}
