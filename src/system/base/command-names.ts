/** Each word that is a command after `runner`, grouped as in `--help`. No tier can have such a name. */
export const commandGroups = {
  'The first day': ['init', 'new', 'list', 'run', 'cron', 'status', 'report', 'why', 'show', 'doctor'],
  Scripts: ['disable', 'enable', 'due', 'exec', 'stop', 'pause', 'resume', 'repeat'],
  'The queue': ['add', 'work', 'jobs', 'job', 'claim', 'kick', 'import'],
  'Watching and alerts': [
    'next',
    'tail',
    'watch',
    'web',
    'activity',
    'metrics',
    'check',
    'incidents',
    'acknowledge',
    'mute',
    'unmute',
    'alert',
  ],
  'The folder and its log': ['migrate', 'backup', 'restore', 'uninstall', 'completion'],
} as const;

export const commandNames = Object.values(commandGroups).flat();

export type CommandName = (typeof commandNames)[number];

/** The command that only shells call, at each Tab. */
export const HIDDEN_COMMAND = 'complete';

const reserved: ReadonlySet<string> = new Set([...commandNames, HIDDEN_COMMAND, 'help']);

/** Whether a word after `runner` means a command. */
export function isCommandName(word: string): boolean {
  return reserved.has(word);
}
