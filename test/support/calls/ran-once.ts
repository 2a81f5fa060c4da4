import { queryLog } from '../log/open-log.ts';
import { noted } from './at-time.ts';

/** The runs of scripts in the log, each once, and which of them nobody has seen: those began, and were cut off. */
export function readTold(root: string): readonly string[] {
  const runs = queryLog<{ script: string; outcome: string }>(
    root,
    `select script, outcome from runs where script not like '%/other' order by script`,
  );
  const seen = noted(root).map((line) => line.split(' ')[0]);
  return runs.map(({ script, outcome }) => {
    const times = seen.filter((name) => script === name).length;
    return times === 1 || (times === 0 && outcome === 'crashed') ? script : `${script} ${outcome}, seen ${times} times`;
  });
}
