import bytes from 'bytes';
import Table from 'cli-table3';
import { type Figures, median } from './measure.ts';

/** A ratio that is not to be exceeded. */
export interface Goal {
  readonly what: string;
  readonly value: number;
  readonly limit: number;
}

export function printTable(
  title: string,
  figures: ReadonlyMap<string, readonly Figures[]>,
  base: string,
): void {
  const table = new Table({
    head: [title, 'wall ms', 'ratio', 'CPU ms', 'ratio', 'own peak'],
    style: { head: [] },
  });
  const baseline = summarize(figures.get(base) ?? []);
  for (const [name, rounds] of figures) {
    const { wallMs, cpuMs, peakRssBytes } = summarize(rounds);
    table.push([
      name,
      wallMs.toFixed(0),
      (wallMs / baseline.wallMs).toFixed(2),
      cpuMs.toFixed(0),
      (cpuMs / baseline.cpuMs).toFixed(2),
      Number.isNaN(peakRssBytes) ? '–' : String(bytes(peakRssBytes)),
    ]);
  }
  process.stdout.write(`${table.toString()}\n`);
}

/** Says of each goal whether it was reached; a bench reports, it does not fail. */
export function printGoals(goals: readonly Goal[]): void {
  for (const { what, value, limit } of goals) {
    const verdict = value <= limit ? 'reached' : `MISSED by ${(value - limit).toFixed(2)}`;
    process.stdout.write(`${what}: ${value.toFixed(3)} (goal ≤ ${limit}) ${verdict}\n`);
  }
}

function summarize(rounds: readonly Figures[]) {
  return {
    wallMs: median(rounds.map(({ wallMs }) => wallMs)),
    cpuMs: median(rounds.map(({ cpuMs }) => cpuMs)),
    peakRssBytes: median(rounds.flatMap(({ peakRssBytes }) => peakRssBytes ?? [])),
  };
}
