import { durationReader } from '../../settings/readers.ts';
import { define } from '../shared/command.ts';
import { by } from '../shared/option-readers.ts';

export const folder = define({
  migrate: {
    about: 'move the activity log to a database server, or back to a file',
    options: {
      '--to <place>': 'the new place: `sqlite`, or a variable or file with the address of a database',
      '--from <place>': 'where it is now (default: as RUNNER_DATABASE_URL says)',
      '--wait <duration>': {
        about: 'how long to wait for running scripts and claimed jobs: 10m',
        read: by(durationReader('30s or 10m')),
      },
      '--dry-run': 'only show what would be copied',
      '--reopen': 'use an old log again, as it was when it was moved',
      '--json': 'as JSON',
    },
    help: `
A place is \`sqlite\` (.runner/activity.db), the name of an environment variable that holds the address of a
database, or a file that holds it and only you may read. An address with a password is refused here:
others would see it in \`ps\`.

The log stays in use while it is copied. At the end it cannot be written for a moment: recent changes are
copied, every row is compared, and the old log is closed. It is not deleted. If the command is interrupted,
the same call continues.

Examples:
  runner migrate --to ~/database-url --dry-run    what would be copied
  runner migrate --to RUNNER_DATABASE_URL         from the SQLite file to that database
  runner migrate --to ~/database-url --wait 10m   waits for running scripts to end
  runner migrate --to sqlite                      back, with everything that has happened since
  runner migrate --reopen --from sqlite           use the old log again, as it was when it was moved

Exit codes: 0 moved, 1 not moved: the log is used as before, 2 usage error. See docs/database.md.`,
    load: async () => (await import('../site/migrate.ts')).migrateCommand,
  },
  backup: {
    about: 'copy the activity log, also while passes write to it',
    args: { '<file>': 'file for the copy, with an ending; or a folder: activity-<date>.db' },
    options: { '--force': 'replace an existing copy' },
    help: `
Examples:
  runner backup ~/activity.db            a copy of the log in this file
  runner backup ~/backups                a copy named activity-<date>.db in this folder, which must be there
  runner backup --force ~/activity.db    replaces yesterday's copy

The copy contains the log at one moment, also while passes write to it. It is checked before it gets
its name. Only you can read it. Only another copy is ever replaced.

Exit codes: 0 the copy was made, 1 no copy was made, 2 usage error.`,
    load: async () => (await import('../site/backup.ts')).backup,
  },
  restore: {
    about: 'replace the activity log with a backup',
    args: { '<backup>': 'a file that `npx folder-runner backup` has made' },
    help: `
Examples:
  runner restore ~/backups/activity-20261101-040000.db

The backup is checked first. The log is then replaced in one step, or not at all; what it held is kept
beside it. Only rows are taken from the backup, and nothing in it is run. Tokens, pauses and unsent messages
stay as they are now. Nothing may be running: call \`npx folder-runner pause\` before, and
\`npx folder-runner resume\` afterwards. Jobs that waited when the backup was made wait again, even if they
were processed since.

Exit codes: 0 the log was restored, 1 it was not, 2 usage error.`,
    load: async () => (await import('../site/backup.ts')).restore,
  },
  uninstall: {
    about: 'take the crontab lines out; with --purge also remove .runner/',
    options: {
      '--purge': 'also remove the log and all that .runner/ holds',
      '--yes': 'do not ask on a terminal before --purge removes anything',
    },
    help: `
Examples:
  runner uninstall            takes the crontab lines out, and says what is left
  runner uninstall --purge    also removes .runner/: the log, the output of all runs, waiting jobs

On a terminal --purge asks first, unless --yes is given; elsewhere it does not ask.
Your scripts in jobs/ and the settings always stay. Remove the package itself afterwards, by
npm uninstall folder-runner: crontab lines that are left without it run nothing, and say so once a day.`,
    load: async () => (await import('../site/uninstall.ts')).uninstall,
  },
  completion: {
    about: 'print what bash, zsh or fish needs to complete calls of runner',
    args: { '<shell>': { about: 'for which shell', choices: ['bash', 'zsh', 'fish'] } },
    help: `
Examples:
  runner completion bash > ~/.local/share/bash-completion/completions/runner
  eval "$(runner completion zsh)"                            in ~/.zshrc, after compinit
  runner completion fish > ~/.config/fish/completions/runner.fish

Commands, options, tiers, scripts, names and numbers of jobs then complete with the Tab key.`,
    reads: true,
    load: async () => (await import('../shell/completion.ts')).printCompletion,
  },
});
