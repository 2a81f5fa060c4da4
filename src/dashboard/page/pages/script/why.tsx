import { Answered } from '../../components/notice.tsx';
import { Section } from '../../components/page.tsx';
import { State, type Tone } from '../../components/state.tsx';
import { isStatic, useAnswer } from '../../data.ts';

const tones: Readonly<Record<string, Tone>> = { fine: 'good', notable: 'warning', wrong: 'bad' };

/** Why it did or didn't run: one sentence, and on request what it was concluded from. */
export function Why({ script }: { readonly script: string }) {
  const asked = useAnswer('/api/why/{name}', { params: { path: { name: script } } });
  // A report may have been made without it.
  if (isStatic && asked.data === null) return null;
  return (
    <Section title="Why it does or doesn’t run">
      <Answered asked={asked}>
        {({ conclusion, findings }) => (
          <>
            <p>{conclusion}</p>
            <details open={findings.some(({ verdict }) => verdict === 'wrong')}>
              <summary>What that was concluded from</summary>
              <ul class="findings">
                {findings.map(({ topic, verdict, text, cure }) => (
                  <li key={`${topic} ${text}`}>
                    <State state={verdict} tone={tones[verdict] ?? 'unknown'} word={topic} /> <span>{text}</span>
                    {cure !== null && <span class="quiet"> → {cure}</span>}
                  </li>
                ))}
              </ul>
            </details>
          </>
        )}
      </Answered>
    </Section>
  );
}
