// Before all that formats numbers as it is loaded.
import './frame/preferences.ts';
import './style/base.css';
import './style/components.css';
import './style/table.css';
import './style/frame.css';
import './style/pages.css';
import { render } from 'preact';
import { PageFrame } from './frame/frame.tsx';
import { logInByAddress } from './frame/login.tsx';

if (!(await logInByAddress())) render(<PageFrame />, document.getElementById('app') as HTMLElement);
