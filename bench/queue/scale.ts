/** How much is measured, and where. */
export interface Scale {
  /** A new folder on the disk that is measured. */
  readonly disk: string;
  readonly rounds: number;
  /** So many of so many, where it is to be shorter. */
  readonly jobs: (count: number) => number;
}
