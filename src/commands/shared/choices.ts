/** The languages of `runner new`, by the extension of the file. */
export const languages = ['ts', 'sh', 'php'] as const;

/** The modes of `runner cron`. */
export const cronModes = ['print', 'install', 'remove', 'import', 'undo'] as const;

/** Stands in the help of `runner watch`, and in a view of it. */
export const watchKeys = `
Keys:
  1 or s      scripts: what runs and waits, each tier, each script
  2 or r      runs of all scripts, newest first
  3 or w      the queue (work): its jobs, newest first
  4 or o      output of the script that runs now, as it is written
  ↑ ↓ or k j  select, or scroll; also page up, page down, home, end
  enter       open what is selected: a script, a run, a job
  esc         back
  ?           these keys
  q, ctrl-c   quit; scripts and jobs keep running`;
