import * as kleur from 'kleur/colors';
import { isFailure } from '../../store/words.ts';
import { hasWarning } from '../../system/base/format.ts';
import type { RunRecord } from '../model/runs/run.ts';
import { type Clock, createClock } from '../text/clock.ts';

/** The target of a layout. */
export interface Screen {
  readonly columns: number;
  readonly palette: Palette;
  readonly clock: Clock;
  readonly nowMs: number;
  /** It is drawn anew each second, and lines lead somewhere: no advice stands between them. */
  readonly isWatched?: true;
}

interface ScreenSource {
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: { readonly isTTY?: boolean; readonly columns?: number };
  /** Still the terminal when the output goes to a pager. */
  readonly stderr: { readonly columns?: number };
  readonly now: () => number;
}

/** Into a file goes a line that shows every column. */
const COLUMNS_WITHOUT_TERMINAL = 120;
const FEWEST_COLUMNS = 40;

export function createScreen({ env, stdout, stderr, now }: ScreenSource): Screen {
  const nowMs = now();
  const columns = stdout.columns || stderr.columns || Number(env.COLUMNS);
  return {
    columns: Math.max(FEWEST_COLUMNS, columns || COLUMNS_WITHOUT_TERMINAL),
    palette: createPalette(isColoured(env, stdout.isTTY === true)),
    clock: createClock(nowMs),
    nowMs,
  };
}

/** NO_COLOR forbids, FORCE_COLOR demands (0 forbids too), otherwise a terminal decides. */
export function isColoured(env: NodeJS.ProcessEnv, isTerminal: boolean): boolean {
  if (env.NO_COLOR || env.FORCE_COLOR === '0') return false;
  if (env.FORCE_COLOR !== undefined) return true;
  return isTerminal && env.TERM !== 'dumb';
}

type Paint = (text: string) => string;

/** The few colours of all output; each is the identity where there are none. */
export interface Palette {
  readonly bold: Paint;
  readonly dim: Paint;
  readonly good: Paint;
  readonly bad: Paint;
  readonly warning: Paint;
  readonly live: Paint;
}

export function createPalette(isColoured: boolean): Palette {
  const use = (paint: typeof kleur.bold): Paint => (isColoured ? always(paint) : (text) => text);
  return {
    bold: use(kleur.bold),
    dim: use(kleur.dim),
    good: use(kleur.green),
    bad: use(kleur.red),
    warning: use(kleur.yellow),
    live: use(kleur.cyan),
  };
}

export function paintOutcome(palette: Palette, run: Pick<RunRecord, 'outcome' | 'warning'>): Paint {
  const { outcome } = run;
  if (hasWarning(run)) return palette.warning;
  if (outcome === 'succeeded') return palette.good;
  if (outcome === 'running') return palette.live;
  return isFailure(outcome) ? palette.bad : palette.warning;
}

/** kleur judges by `process.stdout` as it is when it loads; the caller has judged better. */
function always(paint: typeof kleur.bold): Paint {
  return (text) => {
    const before = kleur.$.enabled;
    kleur.$.enabled = true;
    const painted = paint(text);
    kleur.$.enabled = before;
    return painted;
  };
}

/** A stream that text goes to. */
export interface TextOutput {
  /** False once the reader is gone (`runner report | head`): there is nobody left to write for. */
  write(text: string): Promise<boolean>;
}

export function openTextOutput(stream: NodeJS.WritableStream): TextOutput {
  // Without a listener the same error would also end the process with a stack.
  stream.on('error', ignoreGoneReader);
  return { write: (text) => writeText(stream, text) };
}

function writeText(stream: NodeJS.WritableStream, text: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (!error) resolve(true);
      else if (isReaderGone(error)) resolve(false);
      else reject(error);
    });
  });
}

function ignoreGoneReader(error: Error): void {
  if (!isReaderGone(error)) throw error;
}

function isReaderGone(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED';
}
