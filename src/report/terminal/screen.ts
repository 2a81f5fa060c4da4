import { type Clock, createClock } from '../clock.ts';
import { createPalette, type Palette } from './palette.ts';

/** What text is laid out for. */
export interface Screen {
  readonly columns: number;
  readonly palette: Palette;
  readonly clock: Clock;
  readonly nowMs: number;
}

export interface ScreenSource {
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
