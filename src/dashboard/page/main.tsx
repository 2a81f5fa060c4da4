// Before all that formats numbers as it is loaded.
import './frame/preferences.ts';
import { render } from 'preact';
import { PageFrame } from './frame/frame.tsx';
import { logInByAddress } from './frame/login.tsx';
import './style/tokens.css';
import './style/base.css';
import './style/frame.css';
import './style/components.css';
import './style/table.css';
import './style/overview.css';
import './style/manage.css';
import './style/queue.css';
import './style/activity.css';
import './style/incidents.css';

if (!(await logInByAddress())) render(<PageFrame />, document.getElementById('app') as HTMLElement);
