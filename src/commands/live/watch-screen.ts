import type { Key } from 'node:readline';
import type { Site } from '../../dashboard/site.ts';
import { QueueError } from '../../queue/errors.ts';
import { drawFrame, MARK, roomOf } from '../../report/terminal/frame.ts';
import { createScreen, type Screen } from '../../report/terminal/screen.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { CommandContext } from '../shared/context.ts';
import type { FullScreen } from './full-screen.ts';
import { type Content, type Drawn, textOfView, type View, ViewReader } from './watch-views.ts';

/** A view, and where in it one is. */
interface Place {
  readonly view: View;
  /** Among what can be opened. */
  selected: number;
  /** Where nothing can be: the first line; null: the end is in sight, and stays so. */
  top: number | null;
}

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

/** What is on the screen, and what keys do to it. */
export class Watch {
  readonly left: Promise<null>;
  readonly #leave: (value: null) => void;
  readonly #fail: (error: unknown) => void;
  readonly #reader: ViewReader;
  readonly #screen: FullScreen;
  readonly #context: CommandContext;
  #path: Place[] = [{ view: (tabs[0] as Tab).view, selected: 0, top: 0 }];
  #content: Content = LOADING;
  #isReading = false;
  #isStale = false;

  constructor(site: Site, screen: FullScreen, context: CommandContext) {
    ({ promise: this.left, resolve: this.#leave, reject: this.#fail } = Promise.withResolvers<null>());
    this.#reader = new ViewReader(site);
    this.#screen = screen;
    this.#context = context;
    screen.onKey((key) => this.#press(key));
    screen.onResize(() => this.#draw());
    this.#draw();
  }

  /** Reads what is shown anew. What is asked for meanwhile is read afterwards. */
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

  #press(key: Key): void {
    const { name = '', ctrl } = key;
    const tab = tabs.find(({ keys }) => keys.includes(name) || keys.includes(key.sequence ?? ''));
    if (name === 'q' || (ctrl && name === 'c')) this.#leave(null);
    else if (ctrl) return;
    else if (tab !== undefined) this.#go([{ view: tab.view, selected: 0, top: tab.name === 'output' ? null : 0 }]);
    else if (name === 'escape' || name === 'backspace' || name === 'left') this.#back();
    else if (name === 'return' || name === 'enter' || name === 'right') this.#open();
    else this.#move(name);
  }

  #back(): void {
    if (this.#path.length > 1) this.#go(this.#path.slice(0, -1));
  }

  #open(): void {
    const view = [...this.#drawn().opens.values()][this.#place.selected];
    if (view !== undefined) this.#go([...this.#path, { view, selected: 0, top: 0 }]);
  }

  #move(name: string): void {
    const { opens, lines } = this.#drawn();
    const room = roomOf(this.#screen.size());
    const steps: Record<string, number> = { up: -1, k: -1, down: 1, j: 1, pageup: -room, pagedown: room };
    const step = name === 'home' ? -Infinity : name === 'end' ? Infinity : steps[name];
    if (step === undefined) return;
    const place = this.#place;
    const last = Math.max(0, lines.length - room);
    if (this.#content.isList) place.selected = within(place.selected + step, opens.size - 1);
    else {
      const top = within((place.top ?? last) + step, last);
      // At the end of an output one stays there.
      place.top = top === last ? null : top;
    }
    this.#draw();
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
    const { lines, opens } = this.#drawn();
    const place = this.#place;
    place.selected = within(place.selected, opens.size - 1);
    const size = this.#screen.size();
    const shown = this.#path[0]?.view.kind;
    const frame = {
      tabs: tabs.map(({ keys: [key], name, view }) => ({ key, name, isShown: view.kind === shown })),
      lines,
      selected: this.#content.isList ? ([...opens.keys()][place.selected] ?? null) : null,
      isList: this.#content.isList,
      top: place.top ?? Math.max(0, lines.length - roomOf(size)),
      help: this.#help(),
      note: clock.dateTime(nowMs),
    };
    this.#screen.draw(drawFrame(frame, size, palette));
  }

  #help(): string {
    const move = this.#content.isList ? '↑↓ select · enter open' : '↑↓ scroll';
    const back = this.#path.length > 1 ? ' · esc back' : '';
    return `1-4 view · ${move}${back} · q leave`;
  }
}

function within(value: number, last: number): number {
  return Math.max(0, Math.min(value, last));
}

/** What is wrong with the log, or that a job is gone, stands in place of what was asked for. */
function told(error: unknown): string {
  if (error instanceof StoreUnavailable || error instanceof QueueError || error instanceof UsageError)
    return error.message;
  throw error;
}
