/** Each word that is a command after `runner`, in the order of `--help`. No tier can have such a name. */
export const commandNames = [
  'init',
  'new',
  'edit',
  'disable',
  'enable',
  'cron',
  'list',
  'due',
  'run',
  'add',
  'work',
  'jobs',
  'job',
  'claim',
  'kick',
  'report',
  'metrics',
  'status',
  'why',
  'check',
  'doctor',
  'alert',
  'show',
  'activity',
  'tail',
  'watch',
  'migrate',
  'backup',
  'restore',
  'move',
  'uninstall',
  'pause',
  'resume',
  'incidents',
  'acknowledge',
  'mute',
  'unmute',
  'web',
  'repeat',
  'import',
  'completion',
  'version',
] as const;

export type CommandName = (typeof commandNames)[number];

/** Of shells and of the build. */
const hidden: readonly string[] = ['complete', 'man'];

const reserved: ReadonlySet<string> = new Set([...commandNames, ...hidden, 'help']);

export function isHiddenCommand(word: string): boolean {
  return hidden.includes(word);
}

/** Whether a word after `runner` means a command. */
export function isCommandName(word: string): boolean {
  return reserved.has(word);
}
