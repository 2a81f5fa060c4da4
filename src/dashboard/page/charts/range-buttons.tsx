interface RangeButtonsProps<Name extends string> {
  /** In this order; the words that stand for each. */
  readonly ranges: readonly (readonly [name: Name, words: string])[];
  readonly chosen: Name;
  readonly onChoose: (name: Name) => void;
}

/** How far back a chart goes. */
export function RangeButtons<Name extends string>({ ranges, chosen, onChoose }: RangeButtonsProps<Name>) {
  return (
    <fieldset class="ranges">
      <legend class="hidden">How far back</legend>
      {ranges.map(([name, words]) => (
        <button key={name} type="button" aria-pressed={name === chosen} onClick={() => onChoose(name)}>
          {words}
        </button>
      ))}
    </fieldset>
  );
}
