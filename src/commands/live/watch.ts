import { writeSync } from 'node:fs';
import { constants } from 'node:os';
import { emitKeypressEvents, type Interface, type Key } from 'node:readline';
import { type LiveSite, openSite } from '../../dashboard/site.ts';
import { QueueError } from '../../queue/errors.ts';
import { drawFrame, MARK, roomOf, topOf } from '../../report/terminal/frame.ts';
import { createScreen, type Screen } from '../../report/terminal/screen.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { UsageError } from '../../system/base/errors.ts';
import { watchKeys } from '../shared/command.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';
import { type Content, type Drawn, textOfView, type View, ViewReader } from './watch-views.ts';

const REDRAW_MS = 1000;

/** `runner watch`: how things stand, live, on the whole terminal. */
export async function watch(context: CommandContext, options: Given<'watch'>): Promise<void> {
  const { env, version, now, distFolder, stdout } = context;
  const { stdin } = process;
  if (!stdin.isTTY || !stdout.isTTY || env.TERM === 'dumb') {
    throw new UsageError(
      'runner watch needs a terminal; `npx folder-runner status` and `npx folder-runner report` print the same once.',
    );
  }
  const root = rootOf(context, options.root);
  const site = openSite({ root, env, version, now, distFolder });
  // First: from then on the terminal is given back.
  const signals = awaitSignal();
  const screen = openFullScreen({ stdin, stdout });
  const shown = new Watch(site, screen, context, watchKeys);
  const timer = setInterval(() => shown.tick(), REDRAW_MS);
  const unfollow = site.feed.follow(() => shown.reload());
  try {
    const signal = await Promise.race([shown.left, screen.gone, signals.came]);
    if (signal !== null) context.setExitCode(128 + constants.signals[signal]);
  } finally {
    unfollow();
    clearInterval(timer);
    signals.ignore();
    screen.leave();
    site.close();
  }
}

/** Signals by which a terminal or a host ends programs. */
const endings = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

function awaitSignal() {
  const { promise: came, resolve } = Promise.withResolvers<(typeof endings)[number]>();
  for (const signal of endings) process.on(signal, resolve);
  const ignore = (): void => {
    for (const signal of endings) process.off(signal, resolve);
  };
  return { came, ignore };
}

/** A view, and where in it one is. */
interface Place {
  readonly view: View;
  /** The selected item, whichever line it is on now; null: nothing was read yet. */
  selected: View | null;
  /** The cursor has been moved: the view scrolls to keep it in sight. Until then its head stays in sight. */
  isFollowed: boolean;
  /** The first line in sight; null: the end is in sight, and stays so. */
  top: number | null;
}

const placeOf = (view: View, top: number | null = 0): Place => ({ view, selected: null, isFollowed: false, top });

interface Tab {
  readonly keys: readonly [digit: string, letter: string];
  readonly name: string;
  readonly view: View;
}

/** `q` leaves, as everywhere; so the queue has the letter of its work. */
const tabs: readonly Tab[] = [
  { keys: ['1', 's'], name: 'scripts', view: { kind: 'scripts' } },
  { keys: ['2', 'r'], name: 'runs', view: { kind: 'runs' } },
  { keys: ['3', 'w'], name: 'queue', view: { kind: 'queue' } },
  { keys: ['4', 'o'], name: 'output', view: { kind: 'output', run: null } },
];

const LOADING = textOfView('Reading the log …');

/** The contents of the screen, and the effect of each key. */
class Watch {
  readonly left: Promise<null>;
  readonly #leave: (value: null) => void;
  readonly #fail: (error: unknown) => void;
  readonly #reader: ViewReader;
  readonly #screen: FullScreen;
  readonly #context: CommandContext;
  #path: Place[] = [placeOf((tabs[0] as Tab).view)];
  #content: Content = LOADING;
  #isReading = false;
  #isStale = false;

  constructor(site: LiveSite, screen: FullScreen, context: CommandContext, keys: string) {
    ({ promise: this.left, resolve: this.#leave, reject: this.#fail } = Promise.withResolvers<null>());
    this.#reader = new ViewReader(site, keys);
    this.#screen = screen;
    this.#context = context;
    screen.onKey((key) => this.#press(key));
    screen.onResize(() => this.#draw());
    this.#draw();
  }

  /** Reads the shown view again. A request that comes during a reading starts another one afterwards. */
  reload(): void {
    this.#isStale = true;
    if (!this.#isReading) void this.#read().catch(this.#fail);
  }

  /** A second has passed: output is written without a word in the log. */
  tick(): void {
    const { kind } = this.#place.view;
    if (kind === 'output' || kind === 'run') this.reload();
    else this.#draw();
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    while (this.#isStale) {
      this.#isStale = false;
      const place = this.#place;
      const content = await this.#reader.read(place.view).catch((error: unknown) => textOfView(told(error)));
      if (place === this.#place) this.#content = content;
    }
    this.#isReading = false;
    this.#draw();
  }

  get #place(): Place {
    return this.#path.at(-1) as Place;
  }

  #go(path: Place[]): void {
    this.#path = path;
    this.#content = LOADING;
    this.reload();
  }

  /**
   * A terminal sends Esc and a key right after it as one key with Alt. No key here uses Alt, so this takes them as two.
   */
  #press(key: Key): void {
    const { name = '', ctrl, meta, sequence = '' } = key;
    if (meta && sequence.length > 1 && !isTerminalSequence(sequence)) {
      const rest = sequence.slice(1);
      this.#back();
      this.#press({ ...key, meta: rest.startsWith('\x1b'), sequence: rest });
      return;
    }
    const tab = tabs.find(({ keys }) => keys.includes(name) || keys.includes(sequence));
    if (name === 'q' || (ctrl && name === 'c')) this.#leave(null);
    else if (ctrl) return;
    else if (tab !== undefined) this.#go([placeOf(tab.view, tab.name === 'output' ? null : 0)]);
    else if (sequence === '?') this.#enter({ kind: 'help' });
    else if (name === 'escape' || name === 'backspace' || name === 'left') this.#back();
    else if (name === 'return' || name === 'enter' || name === 'right') this.#open();
    else this.#move(name);
  }

  #back(): void {
    if (this.#path.length > 1) this.#go(this.#path.slice(0, -1));
  }

  #open(): void {
    const view = this.#place.selected;
    if (view !== null) this.#enter(view);
  }

  #enter(view: View): void {
    if (!isSame(view, this.#place.view)) this.#go([...this.#path, placeOf(view)]);
  }

  #move(name: string): void {
    const room = roomOf(this.#screen.size());
    const steps: Record<string, number> = { up: -1, k: -1, down: 1, j: 1, pageup: -room, pagedown: room };
    const step = name === 'home' ? -Infinity : name === 'end' ? Infinity : steps[name];
    if (step === undefined) return;
    const drawn = this.#drawn();
    if (drawn.opens.size > 0) this.#moveCursor(drawn, step);
    else this.#scroll(drawn, step);
    this.#draw();
  }

  /** From the first item on upwards, and as long as it is below what is in sight, the view scrolls. */
  #moveCursor(drawn: Drawn, step: number): void {
    const place = this.#place;
    const room = roomOf(this.#screen.size());
    const items = [...drawn.opens];
    const index = indexOf(items, place.selected);
    const line = items[index]?.[0] ?? 0;
    const top = this.#topOf(drawn, line);
    const isBelow = line >= top + room;
    const next = within(index + step, items.length - 1);
    place.selected = items[next]?.[1] ?? null;
    if (step > 0 && isBelow && step !== Infinity) {
      place.selected = items[index]?.[1] ?? null;
      place.top = Math.min(top + step, line);
    } else if (step < 0 && next === 0 && (index === 0 || step === -Infinity)) {
      place.isFollowed = false;
      place.top = Math.max(0, top + step);
    } else place.isFollowed = true;
  }

  #scroll({ lines }: Drawn, step: number): void {
    const last = this.#lastTop(lines);
    const top = within((this.#place.top ?? last) + step, last);
    // At the end of an output one stays there.
    this.#place.top = top === last && !this.#content.isList ? null : top;
  }

  #lastTop(lines: readonly string[]): number {
    return Math.max(0, lines.length - roomOf(this.#screen.size()));
  }

  #drawn(): Drawn {
    return this.#content.draw(this.#screenWithin());
  }

  #screenWithin(): Screen {
    const screen: Screen = { ...createScreen(this.#context), isWatched: true };
    return this.#content.isList ? { ...screen, columns: screen.columns - MARK.length } : screen;
  }

  #draw(): void {
    const { palette, clock, nowMs } = createScreen(this.#context);
    const drawn = this.#drawn();
    const place = this.#place;
    const items = [...drawn.opens];
    const [selected = null, view = null] = items[indexOf(items, place.selected)] ?? [];
    // While the log is read there is nothing to be on.
    if (view !== null) place.selected = view;
    const top = this.#topOf(drawn, selected);
    const size = this.#screen.size();
    const shown = this.#path[0]?.view.kind;
    const frame = {
      tabs: tabs.map(({ keys: [key], name, view }) => ({ key, name, isShown: view.kind === shown })),
      lines: drawn.lines,
      selected: selected !== null && selected >= top && selected < top + roomOf(size) ? selected : null,
      isList: this.#content.isList,
      top,
      help: this.#help(),
      note: clock.dateTime(nowMs),
    };
    this.#screen.draw(drawFrame(frame, size, palette));
  }

  /** A view without a head above its items always keeps its cursor in sight. */
  #topOf({ lines, opens }: Drawn, selected: number | null): number {
    const place = this.#place;
    if (place.top === null) return this.#lastTop(lines);
    const hasHead = ([...opens.keys()][0] ?? 0) > 1;
    const isKept = selected !== null && (place.isFollowed || !hasHead);
    const top = topOf({ lines, selected: isKept ? selected : null, top: place.top }, roomOf(this.#screen.size()));
    if (isKept) place.top = top;
    return top;
  }

  #help(): string {
    const move = this.#content.isList ? '↑↓ select · enter open' : '↑↓ scroll';
    const back = this.#path.length > 1 ? ' · esc back' : '';
    return `1-4 view · ${move}${back} · ? keys · q leave`;
  }
}

function within(value: number, last: number): number {
  return Math.max(0, Math.min(value, last));
}

/** If the selected item is gone, the first one takes its place. */
function indexOf(items: readonly (readonly [number, View])[], selected: View | null): number {
  const index = selected === null ? 0 : items.findIndex(([, view]) => isSame(view, selected));
  return Math.max(0, index);
}

function isSame(one: View, other: View): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** `ESC [ 1 ; 3 B`: Alt and an arrow, as one key of the terminal's. */
function isTerminalSequence(sequence: string): boolean {
  return sequence.startsWith('\x1b[') || sequence.startsWith('\x1bO');
}

/** The message to show instead of the view: the log cannot be read, or the job is gone. */
function told(error: unknown): string {
  if (error instanceof StoreUnavailable || error instanceof QueueError || error instanceof UsageError)
    return error.message;
  throw error;
}

const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const CLEAR_LINE = '\x1b[K';

/** The whole terminal, until it is left. */
interface FullScreen {
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
function openFullScreen({ stdin, stdout }: Terminal): FullScreen {
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
