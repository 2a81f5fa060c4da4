import type { Settings } from '../config/settings.ts';
import type { StateFolder } from '../config/state-folder.ts';

/** What every worker of one root shares. */
export interface Runner {
  readonly root: string;
  readonly state: StateFolder;
  readonly settings: Settings;
  /** Of which scripts get what is allowed. */
  readonly environment: NodeJS.ProcessEnv;
  /** The file that is loaded into Node scripts before they start. */
  readonly probePath: string;
  readonly version: string;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
}
