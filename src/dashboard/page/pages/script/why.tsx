import type { components } from '../../../client/paths.ts';
import { Answered } from '../../components/notice.tsx';
import { Section } from '../../components/page.tsx';
import { State, type Tone } from '../../components/state.tsx';
import { isStatic, useAnswer } from '../../data.ts';

const tones: Readonly<Record<string, Tone>> = { fine: 'good', notable: 'warning', wrong: 'bad' };

/** Why it did or didn't run: one sentence, what is unusual, and on request all that it was concluded from. */
export function WhySection({ script }: { readonly script: string }) {
  const asked = useAnswer('/api/why/{name}', { params: { path: { name: script } } });
  // A report may have been made without it.
  if (isStatic && asked.data === null) return null;
  return (
    <Section title="Why it does or doesn’t run">
      <Answered asked={asked}>
        {({ conclusion, findings }) => (
          <>
            <p>{conclusion}</p>
            <Findings findings={findings.filter(({ verdict }) => verdict !== 'fine')} />
            <details>
              <summary>All that was looked at</summary>
              <Findings findings={findings} />
            </details>
          </>
        )}
      </Answered>
    </Section>
  );
}

interface FindingsProps {
  readonly findings: components['schemas']['Why']['findings'];
}

function Findings({ findings }: FindingsProps) {
  if (findings.length === 0) return null;
  return (
    <ul class="findings">
      {findings.map(({ topic, verdict, text, cure }) => (
        <li key={`${topic} ${text}`}>
          <State state={verdict} tone={tones[verdict] ?? 'unknown'} word={topic} /> <span>{text}</span>
          {cure !== null && <span class="quiet"> → {cure}</span>}
        </li>
      ))}
    </ul>
  );
}
