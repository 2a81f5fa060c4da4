import { formatCount } from '../../../../report/text/format.ts';
import { Section } from '../../components/page.tsx';
import { useAnswer } from '../../data.ts';

const states = ['ready', 'delayed', 'running', 'retrying', 'paused', 'failed', 'finished', 'cancelled'] as const;

/** How many jobs of the queue are in which state now. */
export function JobStates() {
  const { data } = useAnswer('/api/jobs/counts', {});
  const counts = states.map((state) => {
    const count = (data?.items ?? []).reduce((sum, each) => sum + (each[state] ?? 0), 0);
    return { state, count };
  });
  const most = Math.max(...counts.map(({ count }) => count));
  if (most === 0) return null;
  return (
    <Section title="Jobs by state, now">
      <table class="job-states">
        <tbody>
          {counts.map(({ state, count }) => (
            <tr key={state}>
              <th scope="row">{state}</th>
              <td>
                <meter min={0} max={most} value={count} aria-hidden="true" />
              </td>
              <td class="number">{formatCount(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}
