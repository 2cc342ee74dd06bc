import {
  Alert as Message,
  Button,
  Label,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  Modal,
  ModalBody,
  ModalHeader,
  Nav,
  NavItem,
  NavList,
  Page,
  PageSection,
  SkipToContent,
  Switch,
  Title,
} from "./components/library";
import { useEffect, useState } from "react";
import { Link, Route, Routes, useLocation, useNavigate } from "react-router";
import { type Session, loadSession, logOut } from "./api";
import { areKeysEnabled, enableKeys, useKeys } from "./keys";
import { Missing, useTitle } from "./components/common";
import { useConnected } from "./live";
import { SessionContext } from "./session";
import { AlertPage } from "./pages/alert";
import { ComparePage } from "./pages/compare";
import { HistoryPage } from "./pages/history";
import { IncidentPage } from "./pages/incident";
import { IncidentsPage } from "./pages/incidents";
import { NetworkPage } from "./pages/network";
import { NowPage } from "./pages/now";
import { QueryPage } from "./pages/query";
import { ReceiversPage } from "./pages/receivers";
import { ReportPage } from "./pages/report";
import { RulesPage } from "./pages/rules";
import { SilencesPage } from "./pages/silences";
import { SystemPage } from "./pages/system";
import { TryPage } from "./pages/try";

const DARK_CLASS = "pf-v6-theme-dark";
const THEME_SETTING = "moirae.theme";
const PAGES = [
  ["/", "Now", "g n"],
  ["/incidents", "Incidents", "g t"],
  ["/history", "History", "g h"],
  ["/rules", "Rules", "g r"],
  ["/query", "Query", "g q"],
  ["/silences", "Silences", "g i"],
  ["/receivers", "Receivers", "g e"],
  ["/system", "System", "g s"],
] as const;
const KEY_TEXTS = [
  ...PAGES.map(([, name, keys]) => [keys, `Open ${name}`] as const),
  ["j / k", "Next or previous entry of a list"],
  ["Enter", "Open the entry"],
  ["/", "History: search"],
  ["a", "Alert: acknowledge"],
  ["s", "Alert: assign"],
  ["n", "Alert: add a note"],
  ["d", "Alert: record a checked step"],
  ["r", "Alert: resolve"],
  ["x", "Alert: accelerate its recalls"],
  ["e", "Alert: refine (resume) its recalls"],
  ["f", "Alert: finalize its recalls"],
  ["c", "Alert: compare with the most similar past alert"],
  ["?", "Show these keys"],
] as const;

export function App() {
  const [session, setSession] = useState<Session | null>(null);
  const [error, setError] = useState("");
  const [isHelpOpen, setHelpOpen] = useState(false);
  const navigate = useNavigate();
  useEffect(() => {
    loadSession().then(setSession, (problem: Error) => setError(problem.message));
  }, []);
  useKeys({
    "?": () => setHelpOpen(true),
    ...Object.fromEntries(PAGES.map(([path, , keys]) => [keys, () => navigate(path)])),
  });
  if (session === null) {
    return error ? <NoSession error={error} /> : null;
  }
  return (
    <SessionContext value={session}>
      <Page
        masthead={<Header session={session} openHelp={() => setHelpOpen(true)} />}
        mainContainerId="main"
        skipToContent={<SkipToContent href="#main">Skip to content</SkipToContent>}
      >
        <Routes>
          <Route path="/" element={<NowPage />} />
          <Route path="/alerts/:alert" element={<AlertPage />} />
          <Route path="/compare/:event/:past" element={<ComparePage />} />
          <Route path="/incidents" element={<IncidentsPage />} />
          <Route path="/incidents/:incident" element={<IncidentPage />} />
          <Route path="/history" element={<HistoryPage />} />
          <Route path="/rules/*" element={<RulesPage />} />
          <Route path="/network" element={<NetworkPage />} />
          <Route path="/try/*" element={<TryPage />} />
          <Route path="/report" element={<ReportPage />} />
          <Route path="/query" element={<QueryPage />} />
          <Route path="/silences" element={<SilencesPage />} />
          <Route path="/receivers" element={<ReceiversPage />} />
          <Route path="/receivers/:receiver" element={<ReceiversPage />} />
          <Route path="/system" element={<SystemPage />} />
          <Route path="*" element={<UnknownPage />} />
        </Routes>
      </Page>
      {isHelpOpen && <Keys close={() => setHelpOpen(false)} />}
    </SessionContext>
  );
}

function UnknownPage() {
  useTitle("No such page");
  return (
    <PageSection>
      <Missing title="There is no such page">The address may be incomplete.</Missing>
    </PageSection>
  );
}

function NoSession({ error }: { error: string }) {
  return (
    <main className="no-session">
      <Title headingLevel="h1">Moirae</Title>
      <Message variant="danger" isInline title={error} component="h2">
        No page can be shown.
      </Message>
      <Button onClick={() => location.reload()}>Try again</Button>
    </main>
  );
}

function Header({ session, openHelp }: { session: Session; openHelp: () => void }) {
  const isConnected = useConnected();
  const { pathname } = useLocation();
  const [isDark, setDark] = useState(() => document.documentElement.classList.contains(DARK_CLASS));
  function changeTheme(dark: boolean): void {
    localStorage.setItem(THEME_SETTING, dark ? "dark" : "light");
    applyTheme();
    setDark(dark);
  }
  return (
    <Masthead>
      <MastheadMain>
        <MastheadBrand>
          <MastheadLogo component={(props) => <Link {...props} to="/" className="brand" />}>Moirae</MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Nav variant="horizontal" aria-label="Pages">
          <NavList>
            {PAGES.map(([path, name]) => (
              <NavItem key={path} isActive={isPageOf(path, pathname)}>
                <Link to={path}>{name}</Link>
              </NavItem>
            ))}
          </NavList>
        </Nav>
        <div className="header-tools">
          <span role="status">
            <Label color={isConnected ? "green" : "orange"} isCompact variant="outline">
              {isConnected ? "Connected" : "Reconnecting …"}
            </Label>
          </span>
          <Button variant="plain" onClick={() => changeTheme(!isDark)} aria-label={isDark ? "Light theme" : "Dark theme"}>
            {isDark ? "☀" : "☾"}
          </Button>
          <Button variant="plain" onClick={openHelp} aria-label="Keys">
            ?
          </Button>
          <Button variant="link" isInline onClick={() => void logOut()}>
            Log out<span className="session-name"> ({session.name})</span>
          </Button>
        </div>
      </MastheadContent>
    </Masthead>
  );
}

function Keys({ close }: { close: () => void }) {
  const [isEnabled, setEnabled] = useState(areKeysEnabled);
  return (
    <Modal isOpen onClose={close} variant="small" aria-labelledby="keys-title">
      <ModalHeader title="Keys" labelId="keys-title" />
      <ModalBody>
        <Switch
          label="Keys without Ctrl or Alt are on"
          isChecked={isEnabled}
          onChange={(_, checked) => {
            enableKeys(checked);
            setEnabled(checked);
          }}
        />
        <dl className="keys">
          {KEY_TEXTS.map(([keys, text]) => (
            <div key={keys}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{text}</dd>
            </div>
          ))}
        </dl>
      </ModalBody>
    </Modal>
  );
}

function isPageOf(path: string, pathname: string): boolean {
  const isOfAlert = pathname.startsWith("/alerts") || pathname.startsWith("/compare");
  const isOfRule = pathname.startsWith("/try") || pathname.startsWith("/report");
  return path === "/" ? pathname === "/" || isOfAlert : pathname.startsWith(path) || (path === "/rules" && isOfRule);
}

/** Use the theme of the setting, else that of the system. */
export function applyTheme(): void {
  const stored = localStorage.getItem(THEME_SETTING);
  const dark = stored ? stored === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.classList.toggle(DARK_CLASS, dark);
}
