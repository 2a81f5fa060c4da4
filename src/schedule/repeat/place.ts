/** The folder of the files of dates that rules name. */
export interface RulesPlace {
  readonly root: string;
  /** Whether files are read that others can write. */
  readonly allowUnsafe: boolean;
}

let kept: RulesPlace | null = null;

/** Sets the place for all rules of this process, as `keepRulesInZone` sets their zone. */
export function keepRulesAt(place: RulesPlace): void {
  kept = place;
}

/** Null: this process has no root. */
export function rulesPlace(): RulesPlace | null {
  return kept;
}
