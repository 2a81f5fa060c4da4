import { statSync } from 'node:fs';
import type { Reader } from '../settings/readers.ts';
import type { ScriptOptions } from '../settings/settings.ts';
import { machineName } from '../system/process/identity.ts';

/** A runnable file of a tier, or a handler of queued jobs; or why it is refused. */
export interface Script {
  /** `<tier>/<file without extension>`: `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly name: string;
  /** `queue` for a handler. */
  readonly tier: string;
  /** Absolute path of the file that runs; for a folder, of its `index.*`. */
  readonly path: string;
  readonly launch: Launch;
  readonly options: ScriptOptions;
  /** SHA-256 of the file, in hex; for a Node script, with its imports within the root. Null if it could not be read. */
  readonly contentHash: string | null;
  /** Reasons why it does not run, one clear sentence each. Empty: it runs. */
  readonly refusals: readonly string[];
  /** Probable mistakes that do not prevent it from running: `@timout`. */
  readonly warnings: readonly string[];
  /** A probable fault of a script whose runs succeed, one sentence; absent: none is known. */
  readonly doubt?: string;
  /** The ends of other scripts that it waits for. Absent: none, or it is refused. */
  readonly links?: readonly Link[];
}

/** The options that make a script wait for others. */
export const linkKinds = ['after', 'afterFailure', 'always'] as const;
export type LinkKind = (typeof linkKinds)[number];

/** Other scripts that one waits for, and the end that they must come to. */
export interface Link {
  readonly kind: LinkKind;
  readonly scripts: readonly LinkedScript[];
}

/** The same, one by one. */
export function linksOf({ links = [] }: Pick<Script, 'links'>) {
  return links.flatMap(({ kind, scripts }) => scripts.map(({ name: script }) => ({ kind, script })));
}

export interface LinkedScript {
  readonly name: string;
  /** Whether it has a row in the log for each machine. */
  readonly isOnEachHost: boolean;
  readonly isDisabled?: true;
}

/** `node`: run by the runner's own Node with the probe. `program`: run by these arguments. */
export type Launch =
  | {
      readonly kind: 'node';
      /** It exports nothing that could be called; looking for exports costs 1 ms at each start. */
      readonly exportsNothing?: true;
    }
  | {
      readonly kind: 'program';
      readonly command: readonly [string, ...string[]];
      /** Present for a command of `runner exec`, which runs as its caller would have run it. */
      readonly asCaller?: CallersPlace;
    };

/** State that a command gets from its caller, besides the environment. */
export interface CallersPlace {
  /** Absolute. */
  readonly cwd: string;
  readonly umask: number;
  /** Content of its standard input; null: the caller's own input. */
  readonly input: Buffer | null;
  /** Whether it writes to the caller's standard output and standard error; otherwise to the file of its output. */
  readonly writesTo: { readonly stdout: boolean; readonly stderr: boolean };
}

/** A file under `jobs/` that is no script, and why. */
export interface Ignored {
  /** Absolute. */
  readonly path: string;
  readonly reason: string;
  /** It is a folder without `index.*`, whose files may have been meant to run. */
  readonly isPlainFolder?: true;
  /** The command that makes it a script; absent: none. */
  readonly chmod?: string;
}

/**
 * Whether it has its own times: then passes of its tier do not run it at each call. Each pass reports a refused script.
 */
export function hasOwnTimes({ options, refusals }: Pick<Script, 'options' | 'refusals'>): boolean {
  return refusals.length === 0 && (options.schedule !== undefined || options.reboot === true);
}

/** Whether it may start at some times of the day only. */
export function hasWindow({ options, refusals }: Pick<Script, 'options' | 'refusals'>): boolean {
  return refusals.length === 0 && options.between !== undefined;
}

/** Whether it may have to wait once it is queued: for other scripts, or for its window. */
export function mayHaveToWait(script: Pick<Script, 'links' | 'options' | 'refusals'>): boolean {
  return script.links !== undefined || hasWindow(script);
}

/** Whether passes of its tier leave it out on some dates. */
export function mayBeLeftOut(script: Pick<Script, 'options' | 'refusals'>): boolean {
  return isOfEachPass(script) && script.options.except !== undefined;
}

/** Whether each pass of its tier runs it. */
export function isOfEachPass(script: Pick<Script, 'options' | 'refusals'>): boolean {
  return script.refusals.length === 0 && !hasOwnTimes(script);
}

/**
 * When its file was put there or last changed, in epoch milliseconds; null: it cannot be read. The time of its content
 * does not suffice: a file that was moved here, or made executable, is new as a script.
 */
export function fileChangedMs({ path }: Pick<Script, 'path'>): number | null {
  try {
    return statSync(path).ctimeMs;
  } catch {
    return null;
  }
}

export interface Tier {
  readonly name: string;
  /** Null: a tier that only runs by hand. */
  readonly periodMs: number | null;
  readonly scripts: readonly Script[];
  /** Scripts that name other machines to run on. Default: none. */
  readonly elsewhere?: readonly Script[];
}

/** "runs on web-*; this is db-1" */
export function describeHosts({ options }: Script): string {
  return `runs on ${(options.host ?? []).join(', ')}; this is ${machineName()}`;
}

/** A folder of `jobs/` that cannot be read, so its contents are unknown. */
export interface Unread {
  /** Its name; `queue` for the handlers' folder. */
  readonly tier: string;
  /** One sentence. */
  readonly reason: string;
}

export interface Discovery {
  readonly tiers: readonly Tier[];
  /** Other folders are used without them. */
  readonly unread: readonly Unread[];
  /** Filled if all of `jobs/` was read. */
  readonly handlers: readonly Script[];
  readonly ignored: readonly Ignored[];
  /** Scripts and handlers that name other machines to run on. */
  readonly elsewhere: readonly Script[];
  /** Settings that match nothing here, one sentence each; filled if all tiers were read. */
  readonly warnings: readonly string[];
}

/** Longest name of a job, in characters. */
export const LONGEST_NAME = 255;

/** A job's name is a path within `jobs/queue/`, optionally followed by `?` and parameters. */
export const readJobName: Reader<string> = (found) =>
  isJobName(found)
    ? { value: found }
    : { expected: `a handler's path such as mail/welcome, 1 to ${LONGEST_NAME} characters` };

function isJobName(name: unknown): name is string {
  const isText = typeof name === 'string' && name.length <= LONGEST_NAME;
  return isText && isHandlerPath(withoutParameters(name)) && !hasControl(name);
}

/** `mail/welcome` for `mail/welcome?user=7`: parameters distinguish jobs of the same handler. */
export function withoutParameters(name: string): string {
  const end = name.indexOf('?');
  return end === -1 ? name : name.slice(0, end);
}

function isHandlerPath(name: string): boolean {
  return name.split('/').every((part) => part.trim() !== '' && part !== '.' && part !== '..');
}

function hasControl(name: string): boolean {
  return /\p{Cc}|\p{Cs}/u.test(name);
}

/** The name within the tier: `mail/welcome` of the handler `queue/mail/welcome`, which is the name of its jobs. */
export function shortNameOf({ name }: Pick<Script, 'name'>): string {
  return name.slice(name.indexOf('/') + 1);
}

/** A tier of `jobs/` and the names of its scripts. */
export interface KnownTier {
  readonly tier: string;
  readonly scripts: readonly string[];
  /** Names of disabled scripts. Default: none. */
  readonly disabled?: readonly string[];
  /** Its folder cannot be read, so nobody knows its scripts. Default false. */
  readonly isUnread?: boolean;
}
