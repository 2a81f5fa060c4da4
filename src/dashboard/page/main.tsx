import { render } from 'preact';
import { Overview } from './pages/overview.tsx';
import './style.css';

render(<Overview />, document.getElementById('app') as HTMLElement);
