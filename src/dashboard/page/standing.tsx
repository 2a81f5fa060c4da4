import { State } from './components/state.tsx';
import { isStatic } from './data.ts';

/** Whether what is shown is live, and who looks at it. */
export function Standing() {
  return isStatic ? <State state="report" tone="ended" word="Report" /> : null;
}
