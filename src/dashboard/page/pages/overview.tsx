import { useAnswer } from '../data.ts';

/** Is everything well, what failed, since when, why, what now. */
export function Overview() {
  const { data, problem } = useAnswer('/api/overview', {});
  if (problem !== null) return <p role="alert">{problem}</p>;
  if (data === null) return <p>Loading …</p>;
  return (
    <main>
      <h1>Scripts</h1>
      <ul>
        {data.scripts.map(({ script }) => (
          <li key={script}>{script}</li>
        ))}
      </ul>
    </main>
  );
}
