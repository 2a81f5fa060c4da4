/** One thing that is measured; it prints its figures and sets its goals. */
export type Part = (bench: Bench) => Promise<void>;

/** What all parts share: where and how much is measured, and what is to be reached. */
export class Bench {
  readonly #goals: string[][] = [];
  /** On the disk that is measured; removed at the end. */
  readonly disk: string;

  constructor(disk: string) {
    this.disk = disk;
  }

  rounds(usual: number): number {
    return Number(process.env.BENCH_ROUNDS || usual);
  }

  /** So many of so many, where it is to be shorter: `BENCH_SCALE=0.05`. */
  scaled(count: number): number {
    return Math.max(10, Math.round(count * Number(process.env.BENCH_SCALE || 1)));
  }

  /** To see whether it runs: what only adds rows to a table may be left out. */
  get isShort(): boolean {
    return Number(process.env.BENCH_SCALE || 1) < 0.1;
  }

  say(line: string): void {
    process.stdout.write(`${line}\n`);
  }

  table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const lines = [head, ...rows];
    const widths = head.map((_, index) => Math.max(...lines.map((line) => line[index]?.length ?? 0)));
    for (const line of lines) {
      this.say(widths.map((width, index) => (line[index] ?? '').padEnd(width)).join('  '));
    }
  }

  atMost(what: string, value: number, limit: number): void {
    this.#goals.push([what, `≤ ${limit}`, value.toFixed(2), verdict(limit - value)]);
  }

  atLeast(what: string, value: number, limit: number): void {
    this.#goals.push([what, `≥ ${limit}`, value.toFixed(2), verdict(value - limit)]);
  }

  /** A goal that cannot be measured here is named all the same. */
  notMeasured(what: string, goal: string, why: string): void {
    this.say(`NOT MEASURED: ${what}: ${why}`);
    this.#goals.push([what, goal, '–', `NOT MEASURED: ${why}`]);
  }

  /** A bench reports, it does not fail. */
  printGoals(): void {
    if (this.#goals.length > 0) this.table(['goal', '', 'figure', ''], this.#goals);
  }
}

function verdict(margin: number): string {
  if (Number.isNaN(margin)) return 'NOT MEASURED: over too soon';
  return margin >= 0 ? 'reached' : `MISSED by ${(-margin).toFixed(2)}`;
}
