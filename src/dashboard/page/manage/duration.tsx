import { useState } from 'preact/hooks';
import { ConfirmDialog } from '../components/dialog.tsx';

interface Chosen {
  /** `2h`; null: until somebody ends it. */
  readonly for: string | null;
  /** `for 2 hours`. */
  readonly words: string;
}

const durations: readonly Chosen[] = [
  { for: '30m', words: 'for 30 minutes' },
  { for: '2h', words: 'for 2 hours' },
  { for: '1d', words: 'for a day' },
  { for: '7d', words: 'for a week' },
];

interface DurationDialogProps {
  readonly title: string;
  /** On the button. */
  readonly action: string;
  /** The effect, in a sentence. */
  readonly note: string;
  /** The label for no duration: `until it is resumed`. */
  readonly forever: string;
  readonly onClose: () => void;
  readonly onChosen: (chosen: Chosen) => Promise<void>;
}

/** Asks for how long. */
export function DurationDialog({ title, action, note, forever, onClose, onChosen }: DurationDialogProps) {
  const choices = [...durations, { for: null, words: forever }];
  const [chosen, setChosen] = useState<Chosen | null>(choices[1] ?? null);
  const [other, setOther] = useState('');
  const confirm = () => onChosen(chosen ?? { for: other.trim(), words: `for ${other.trim()}` });
  const isBlocked = chosen === null && other.trim() === '';
  return (
    <ConfirmDialog title={title} action={action} isBlocked={isBlocked} onConfirm={confirm} onClose={onClose}>
      <p>{note}</p>
      <fieldset class="choices">
        <legend>For how long?</legend>
        {choices.map((choice) => (
          <label key={choice.words}>
            <input
              type="radio"
              name="duration"
              checked={chosen?.words === choice.words}
              onChange={() => setChosen(choice)}
            />
            {choice.words}
          </label>
        ))}
        <label>
          <input type="radio" name="duration" checked={chosen === null} onChange={() => setChosen(null)} />
          for
          <input
            class="short"
            aria-label="Another duration: a number and a unit, such as 45m, 3h or 2d"
            placeholder="45m, 3h, 2d"
            value={other}
            onInput={({ currentTarget }) => {
              // Not by the focus: the keyboard comes through here on its way to the buttons.
              setChosen(null);
              setOther(currentTarget.value);
            }}
          />
        </label>
      </fieldset>
    </ConfirmDialog>
  );
}
