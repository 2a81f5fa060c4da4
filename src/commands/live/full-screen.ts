import { writeSync } from 'node:fs';
import { emitKeypressEvents, type Interface, type Key } from 'node:readline';

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const CLEAR_LINE = '\x1b[K';

/** The whole terminal, until it is left. */
export interface FullScreen {
  size(): { readonly columns: number; readonly rows: number };
  /** Shows these lines; nothing is sent where they are shown already. */
  draw(lines: readonly string[]): void;
  onKey(press: (key: Key) => void): void;
  onResize(redraw: () => void): void;
  /** Settles once the terminal is gone. */
  readonly gone: Promise<null>;
  /** Gives the terminal back as it was. */
  leave(): void;
}

interface Terminal {
  readonly stdin: NodeJS.ReadStream;
  readonly stdout: NodeJS.WriteStream;
}

/** Size of a terminal that does not report its own. */
const USUAL_COLUMNS = 80;
const USUAL_ROWS = 24;

/** A terminal sends the rest of an arrow's sequence at once; Node would wait half a second to tell it from Esc. */
const ESCAPE_MS = 50;

/** Takes the terminal; also where the process ends unexpectedly, it is given back. */
export function openFullScreen({ stdin, stdout }: Terminal): FullScreen {
  const { promise: gone, resolve } = Promise.withResolvers<null>();
  const end = (): void => resolve(null);
  let shown = '';
  let isLeft = false;
  let resized = (): void => {};
  let pressed: (key: Key) => void = () => {};
  const press = (_: string | undefined, key: Key): void => pressed(key);
  const redraw = (): void => {
    shown = '';
    resized();
  };
  const leave = (): void => {
    if (isLeft) return;
    isLeft = true;
    process.off('exit', leave).off('uncaughtExceptionMonitor', leave);
    stdin.off('keypress', press).off('end', end).off('error', end).pause();
    stdout.off('resize', redraw);
    giveBack(stdin, stdout);
  };
  process.on('exit', leave).on('uncaughtExceptionMonitor', leave);
  emitKeypressEvents(stdin, { escapeCodeTimeout: ESCAPE_MS } as unknown as Interface);
  stdin.setRawMode(true);
  stdin.on('keypress', press).on('end', end).on('error', end).resume();
  stdout.on('resize', redraw).on('error', end).write(ENTER);
  return {
    size: () => ({ columns: stdout.columns || USUAL_COLUMNS, rows: stdout.rows || USUAL_ROWS }),
    draw: (lines) => {
      const text = HOME + lines.map((line) => line + CLEAR_LINE).join('\r\n');
      if (text === shown || isLeft) return;
      shown = text;
      stdout.write(text);
    },
    onKey: (act) => {
      pressed = act;
    },
    onResize: (act) => {
      resized = act;
    },
    gone,
    leave,
  };
}

/** Written at once: the process may be about to end. A terminal that is gone wants nothing back. */
function giveBack(stdin: NodeJS.ReadStream, stdout: NodeJS.WriteStream & { readonly fd?: number }): void {
  try {
    stdin.setRawMode(false);
    writeSync(stdout.fd ?? 1, LEAVE);
  } catch {
    // It is gone.
  }
}
