import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { applyImport, undoImports } from '../../hosting/crontab/import/apply.ts';
import { type ImportPlan, type PlannedLine, planImport } from '../../hosting/crontab/import/plan.ts';
import { type CrontabFormat, detectCrontabFormat, readVariablesOfCron } from '../../hosting/crontab/import/read.ts';
import { undoWrap, unwrapLine } from '../../hosting/crontab/import/wrap.ts';
import { type AskedLines, readMailTo } from '../../hosting/crontab/plan.ts';
import { readCrontab } from '../../hosting/crontab/program.ts';
import { formatJson } from '../../report/json.ts';
import { NoSuchName, UsageError } from '../../system/base/errors.ts';
import { EXEC, isExecName } from '../../system/base/exec-name.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { holdsJobs } from '../../system/place/root.ts';
import { userEnvironment } from '../../system/process/programs.ts';
import type { CommandContext } from '../shared/context.ts';
import type { Given } from '../table.ts';

type ImportChoice = Given<'cron'>;

/** `runner cron --import`: what would become of the lines of a crontab; with `--apply` it does. */
export async function importLines(
  context: CommandContext,
  root: string,
  options: ImportChoice,
  asked: AskedLines,
): Promise<void> {
  const source = readSource(context, options);
  const format = options.format ?? chooseFormat(context, source);
  const { HOME = '/', USER: user = '' } = userEnvironment(context.env);
  const home = context.env.HOME || HOME;
  const place = { root, home, user, given: readVariablesOfCron(), mailTo: readMailTo(root, context.env) };
  const { content, line } = unwrapChosen(source.content, root, options);
  const plan = onlyLine(nameWrapped(await planImport(content, format, place), content, root), line);
  if (options.json) context.stdout.write(formatJson({ lines: plan.lines }));
  else context.stdout.write(describePlan(plan));
  if (!options.apply) {
    if (!options.json) context.stdout.write(describeNext(plan, holdsJobs(root)));
    return;
  }
  apply(context, root, plan, source, { ...options, asked });
}

/** `--import exec/backup` is about one wrapped line, which is planned as it was before. A null line: all are meant. */
function unwrapChosen(crontab: Buffer, root: string, { import: word }: ImportChoice) {
  if (!isCommandName(word)) return { content: crontab, line: null };
  const lines = crontab.toString('latin1').split('\n');
  const label = word.slice(EXEC.length + 1);
  const at = lines.findIndex((line) => unwrapLine(line, root)?.label === label);
  if (at === -1) {
    throw new NoSuchName(
      `No line of your crontab is wrapped as ${printableLine(word)}: \`crontab -l\` shows their names.`,
    );
  }
  lines[at] = unwrapLine(lines[at] as string, root)?.line as string;
  return { content: Buffer.from(lines.join('\n'), 'latin1'), line: at + 1 };
}

/** A wrapped line says how it becomes a script. */
function nameWrapped({ lines, scripts }: ImportPlan, crontab: Buffer, root: string): ImportPlan {
  const texts = crontab.toString('latin1').split('\n');
  const named = lines.map((each): PlannedLine => {
    const label = unwrapLine(texts[each.line - 1] ?? '', root)?.label;
    const note = `It is recorded as exec/${label}; \`npx folder-runner cron --import exec/${label}\` makes a script of it.`;
    return label === undefined ? each : { ...each, notes: [note] };
  });
  return { lines: named, scripts };
}

function onlyLine(plan: ImportPlan, line: number | null): ImportPlan {
  if (line === null) return plan;
  const isIt = (each: { readonly line: number }) => each.line === line;
  return { lines: plan.lines.filter(isIt), scripts: plan.scripts.filter(isIt) };
}

function isCommandName(word: ImportChoice['import']): word is string {
  return typeof word === 'string' && isExecName(word) && !existsSync(word);
}

function chooseFormat({ stderr }: CommandContext, { isUsers, content, path }: Source): CrontabFormat {
  if (isUsers) return 'crontab';
  const { format, note } = detectCrontabFormat(content, path);
  if (note !== null) stderr.write(`Note: ${note}\n`);
  return format;
}

interface Source {
  readonly content: Buffer;
  /** Whether it is the crontab that cron runs for this user. */
  readonly isUsers: boolean;
  /** Null: stdin, or the user's crontab. */
  readonly path: string | null;
}

function readSource(context: CommandContext, { import: file, apply: isApplied }: ImportChoice): Source {
  if (file === true || file === undefined || isCommandName(file))
    return { content: readCrontab(context.env), isUsers: true, path: null };
  if (file === '-') return { content: readFileSync(0), isUsers: false, path: null };
  const path = resolve(context.cwd, file);
  if (isApplied) refuseLiveFile(path);
  try {
    return { content: readFileSync(path), isUsers: false, path };
  } catch (error) {
    throw new UsageError(`${path} cannot be read (${(error as Error).message}); name another file, or - for stdin.`);
  }
}

/** Cron goes on running the lines of its own files, which only root can change. */
function refuseLiveFile(path: string): void {
  if (!/^\/etc\/(?:cron\.d\/|crontab$)|^\/var\/spool\/cron\//.test(path)) return;
  throw new UsageError(
    `${path} is a file that cron itself reads, so its commands would run twice. Copy it, comment the lines out in ` +
      'the original as root, then import the copy with `--format cron.d --apply`.',
  );
}

function apply(
  context: CommandContext,
  root: string,
  plan: ImportPlan,
  { content, isUsers }: Source,
  { json, asked }: ImportChoice & { readonly asked: AskedLines },
): void {
  if (plan.scripts.length === 0) {
    if (!json) context.stdout.write('\nThere is nothing to import, so nothing was changed.\n');
    return;
  }
  const { distFolder, version, env } = context;
  const own = { distFolder, version };
  const { lines, warnings } = applyImport({ root, own, env, plan, asked, crontab: isUsers ? content : null });
  for (const warning of warnings) context.stderr.write(`Note: ${warning}\n`);
  if (json) return;
  const shown = lines.map((line) => `  ${printableLine(line)}\n`).join('');
  context.stdout.write(
    `\nDone: ${countOf(plan.scripts.length, 'script')} in ${root}/jobs. The old lines are kept in your crontab as ` +
      `comments, and these lines run the scripts:\n\n${shown}\n` +
      'Try one with `npx folder-runner run <script>`; see what ran with `npx folder-runner report`; `npx folder-runner cron --undo` goes back.\n',
  );
  if (!isUsers) {
    context.stdout.write(
      'If cron still runs the lines of that file from elsewhere, take them out there: they would run twice.\n',
    );
  }
}

/** Said of more lines than this, a note stands once at the end. */
const MOST_REPEATED = 2;

function describePlan({ lines }: ImportPlan): string {
  if (lines.length === 0) return 'There are no lines to import.\n';
  const counts = new Map<string, number[]>();
  for (const { line, notes } of lines) for (const note of notes) counts.set(note, [...(counts.get(note) ?? []), line]);
  const common = [...counts].filter(([, of]) => of.length > MOST_REPEATED);
  const isCommon = (note: string) => common.some(([each]) => each === note);
  const paragraphs = lines.map((line) =>
    describeLine({ ...line, notes: line.notes.filter((note) => !isCommon(note)) }),
  );
  const ends = common.map(([note, of]) => `lines ${of.join(', ')}\n    ${printableLine(note)}`);
  return [...paragraphs, ...ends].map((each) => `${each}\n`).join('\n');
}

function describeLine({ line, command, script, schedule, notes }: PlannedLine): string {
  const time = schedule === '@reboot' ? schedule : `@schedule ${schedule}`;
  return [
    `line ${line}${command === null ? '' : `: ${printableLine(command)}`}`,
    script === null ? '  left as it is' : `  → ${script}  ${time}`,
    ...notes.map((note) => `    ${printableLine(note)}`),
  ].join('\n');
}

function describeNext({ lines, scripts }: ImportPlan, hasRoot: boolean): string {
  if (scripts.length === 0) return lines.length === 0 ? '' : '\nThere is nothing to import.\n';
  const left = lines.length - scripts.length;
  const rest = left === 0 ? '' : ` ${countOf(left, 'line')} would be left as ${left === 1 ? 'it is' : 'they are'}.`;
  const next = hasRoot
    ? 'Nothing was changed: add --apply to do it.'
    : 'Nothing was changed, and there is no jobs folder yet: to do it, run `npx folder-runner init`, then ' +
      '`npx folder-runner cron --import --apply`.';
  return `\n${countOf(scripts.length, 'line')} would become scripts.${rest} ${next}\n`;
}

/** `runner cron --undo` */
export function undoImport(context: CommandContext, root: string): void {
  const undone = undoImports(root, context.env);
  const unwrapped = undoWrap(root, context.env);
  if (unwrapped !== null) {
    const { lines, kept } = unwrapped;
    context.stdout.write(
      `${countOf(lines, 'line')} of your crontab ${lines === 1 ? 'is' : 'are'} as before, without exec.\n`,
    );
    if (kept !== null) context.stdout.write(`Kept, because some of its lines are gone or changed: ${kept}\n`);
  } else if (undone === null) context.stdout.write(`There is no import into ${root} to undo.\n`);
  if (undone === null) return;
  const { lines, removed, kept, left } = undone;
  context.stdout.write(
    `${countOf(lines, 'line')} of your crontab ${lines === 1 ? 'is' : 'are'} as before, and ` +
      `${countOf(removed.length, 'script')} ${removed.length === 1 ? 'was' : 'were'} removed.\n`,
  );
  for (const path of kept) context.stdout.write(`Kept, because it was changed since: ${path}\n`);
  for (const path of left) context.stdout.write(`Left, because its old line was deleted from the crontab: ${path}\n`);
}
