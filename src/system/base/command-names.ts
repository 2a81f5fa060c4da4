/** Each word that is a command after `runner`, grouped as in `--help`. No tier can have such a name. */
export const commandGroups = {
  'The first day': ['init', 'new', 'list', 'run', 'cron', 'status', 'report', 'why', 'show', 'doctor'],
  Scripts: ['edit', 'disable', 'enable', 'due', 'pause', 'resume', 'repeat'],
  'The queue': ['add', 'work', 'jobs', 'job', 'claim', 'kick', 'import'],
  'Watching and alerts': [
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
  'The folder and its log': ['migrate', 'backup', 'restore', 'move', 'uninstall', 'completion', 'version'],
} as const;

export const commandNames = Object.values(commandGroups).flat();

export type CommandName = (typeof commandNames)[number];

/** Commands that only shells and the build call. */
const hidden: readonly string[] = ['complete', 'man'];

const reserved: ReadonlySet<string> = new Set([...commandNames, ...hidden, 'help']);

export function isHiddenCommand(word: string): boolean {
  return hidden.includes(word);
}

/** Whether a word after `runner` means a command. */
export function isCommandName(word: string): boolean {
  return reserved.has(word);
}
