import bytes from 'bytes';
import Table from 'cli-table3';
import { type Figures, median } from './measure.ts';

/** A ratio that is not to be exceeded, or that is to be reached. */
export interface Goal {
  readonly what: string;
  readonly value: number;
  readonly limit: number;
  readonly isAtLeast?: true;
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
  for (const { what, value, limit, isAtLeast } of goals) {
    const lack = isAtLeast ? limit - value : value - limit;
    const verdict = lack <= 0 ? 'reached' : `MISSED by ${lack.toFixed(2)}`;
    const sign = isAtLeast ? '≥' : '≤';
    process.stdout.write(`${what}: ${value.toFixed(3)} (goal ${sign} ${limit}) ${verdict}\n`);
  }
}

function summarize(rounds: readonly Figures[]) {
  return {
    wallMs: median(rounds.map(({ wallMs }) => wallMs)),
    cpuMs: median(rounds.map(({ cpuMs }) => cpuMs)),
    peakRssBytes: median(rounds.flatMap(({ peakRssBytes }) => peakRssBytes ?? [])),
  };
}
