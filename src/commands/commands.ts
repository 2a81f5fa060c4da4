import type { Command } from 'commander';
import type { CommandName } from '../system/base/command-names.ts';
import type { CommandContext } from './shared/context.ts';

type LoadCommand = () => Promise<(context: CommandContext) => Command>;

/** Only the one that is asked for is loaded. */
export const commands: Readonly<Record<CommandName, LoadCommand>> = {
  init: async () => (await import('./site/setup.ts')).initCommand,
  new: async () => (await import('./scripts/new.ts')).newCommand,
  disable: async () => (await import('./scripts/disable.ts')).disableCommand,
  enable: async () => (await import('./scripts/disable.ts')).enableCommand,
  cron: async () => (await import('./site/cron.ts')).cronCommand,
  list: async () => (await import('./show/status.ts')).listCommand,
  due: async () => (await import('./run/run.ts')).dueCommand,
  run: async () => (await import('./run/run.ts')).runCommand,
  add: async () => (await import('./jobs/queue.ts')).addCommand,
  work: async () => (await import('./run/run.ts')).workCommand,
  jobs: async () => (await import('./jobs/jobs.ts')).jobsCommand,
  job: async () => (await import('./jobs/job.ts')).jobCommand,
  claim: async () => (await import('./jobs/claim.ts')).claimCommand,
  kick: async () => (await import('./jobs/queue.ts')).kickCommand,
  report: async () => (await import('./show/report.ts')).reportCommand,
  metrics: async () => (await import('./monitor/metrics.ts')).metricsCommand,
  status: async () => (await import('./show/status.ts')).statusCommand,
  why: async () => (await import('./show/status.ts')).whyCommand,
  check: async () => (await import('./monitor/check.ts')).checkCommand,
  doctor: async () => (await import('./site/doctor.ts')).doctorCommand,
  alert: async () => (await import('./monitor/alert.ts')).alertCommand,
  show: async () => (await import('./show/show.ts')).showCommand,
  activity: async () => (await import('./show/show.ts')).activityCommand,
  tail: async () => (await import('./live/tail.ts')).tailCommand,
  watch: async () => (await import('./live/watch.ts')).watchCommand,
  migrate: async () => (await import('./site/migrate.ts')).migrateCommand,
  backup: async () => (await import('./site/backup.ts')).backupCommand,
  restore: async () => (await import('./site/backup.ts')).restoreCommand,
  uninstall: async () => (await import('./site/uninstall.ts')).uninstallCommand,
  pause: async () => (await import('./run/pause.ts')).pauseCommand,
  resume: async () => (await import('./run/pause.ts')).resumeCommand,
  incidents: async () => (await import('./monitor/incidents.ts')).incidentsCommand,
  acknowledge: async () => (await import('./monitor/incidents.ts')).acknowledgeCommand,
  mute: async () => (await import('./monitor/incidents.ts')).muteCommand,
  unmute: async () => (await import('./monitor/incidents.ts')).unmuteCommand,
  web: async () => (await import('./live/web.ts')).webCommand,
  repeat: async () => (await import('./jobs/jobs.ts')).repeatCommand,
  import: async () => (await import('./jobs/import.ts')).importCommand,
  completion: async () => (await import('./shell/completion.ts')).completionCommand,
};
