import { type OwnLine, readOldLine, readOwnLine, writeOwnLine } from './own-line.ts';
import { areTimesOf, type CronPeriod, chooseMinutes, timesOf } from './times.ts';

/** The call of a crontab line, and how often the line fires. */
export interface CronCall {
  readonly words: readonly [name: string, ...args: string[]];
  readonly period: CronPeriod;
  /** Its line is there, and keeps its times whatever they are. */
  readonly isKept?: true;
}

export interface LinesRequest {
  readonly root: string;
  /** As the lines are to write it. */
  readonly script: string;
  /** In the order of their lines. */
  readonly calls: readonly CronCall[];
  /** The present lines of this root's block, including those that somebody has added. */
  readonly installed?: readonly string[];
}

export interface PlannedLines {
  readonly lines: readonly string[];
  /** Lines of the block that call something else now, or nothing. */
  readonly dropped: readonly string[];
}

/**
 * One crontab line for each call, among what else stands in the block. A line that is installed keeps its place, its
 * times and what somebody has written around its call: only the call is brought up to date.
 */
export function planLines(request: LinesRequest): PlannedLines {
  const { calls, installed = [] } = request;
  const kept = new Map<CronCall, OwnLine>();
  const dropped: string[] = [];
  const body: (string | CronCall)[] = [];
  for (const text of installed) {
    const own = readLineOf(request.root, text);
    const call = calls.find((each) => each.words[0] === own?.name && !kept.has(each));
    if (own === null) body.push(text);
    else if (call === undefined) dropped.push(text);
    else {
      kept.set(call, own);
      body.push(call);
      if (!keepsTimes(call, own)) dropped.push(text);
    }
  }
  for (const [index, call] of calls.entries()) if (!kept.has(call)) insert(body, call, calls.slice(index + 1));
  const written = writeCalls(request, kept);
  return { lines: body.map((each) => (typeof each === 'string' ? each : (written.get(each) as string))), dropped };
}

/** A line that calls this root, as it is written now or was by earlier versions; null: another one. */
export function readLineOf(root: string, text: string): OwnLine | null {
  const own = readOwnLine(text) ?? readOldLine(text);
  return own?.root === root ? own : null;
}

/** Before the calls that come after it, else at the end. */
function insert(body: (string | CronCall)[], call: CronCall, later: readonly CronCall[]): void {
  const at = body.findIndex((each) => typeof each !== 'string' && later.includes(each));
  body.splice(at === -1 ? body.length : at, 0, call);
}

function writeCalls({ root, script, calls }: LinesRequest, kept: ReadonlyMap<CronCall, OwnLine>) {
  const times = calls.map((call) => {
    const own = kept.get(call);
    return own !== undefined && keepsTimes(call, own) ? own.times : null;
  });
  const timed = calls.map(({ words: [name], period }) => ({ name, period }));
  const minutes = chooseMinutes(root, timed, minutesOf(calls, times));
  return new Map(
    calls.map(({ words: [name, ...args], period }, index) => {
      const { before = '', after = '' } = kept.get(calls[index] as CronCall) ?? {};
      const at = times[index] ?? timesOf(root, name, period, minutes[index] ?? 0);
      return [calls[index] as CronCall, writeOwnLine({ times: at, before, script, name, root, args, after })];
    }),
  );
}

/**
 * A tier's name says how often it runs, so other times of its line are somebody's choice. Those of `due` and `work` go
 * by what there is to call: of these lines the minute stays.
 */
function keepsTimes({ words, period, isKept }: CronCall, { times }: OwnLine): boolean {
  const [name] = words;
  if (isKept === true || !['due', 'work'].includes(name)) return true;
  return areTimesOf(period, times);
}

/** The minutes of present lines, which stay; new lines get other minutes. */
function minutesOf(calls: readonly CronCall[], times: readonly (string | null)[]): Map<string, number> {
  const known = calls.flatMap(({ words: [name] }, index): [string, number][] => {
    const [minute] = /^\d+/.exec(times[index] ?? '') ?? [];
    return minute === undefined ? [] : [[name, Number(minute)]];
  });
  return new Map(known);
}
