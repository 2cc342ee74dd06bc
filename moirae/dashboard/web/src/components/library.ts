// The parts of the component library that the pages use. Each is imported from its own module: the
// main module would bring the styles of all components.

export { Alert, AlertActionCloseButton } from "@patternfly/react-core/dist/esm/components/Alert";
export { Button } from "@patternfly/react-core/dist/esm/components/Button";
export { Card, CardBody, CardTitle } from "@patternfly/react-core/dist/esm/components/Card";
export { Checkbox } from "@patternfly/react-core/dist/esm/components/Checkbox";
export { Content } from "@patternfly/react-core/dist/esm/components/Content";
export { EmptyState, EmptyStateBody } from "@patternfly/react-core/dist/esm/components/EmptyState";
export { ExpandableSection } from "@patternfly/react-core/dist/esm/components/ExpandableSection";
export { Form, FormGroup } from "@patternfly/react-core/dist/esm/components/Form";
export { FormSelect, FormSelectOption } from "@patternfly/react-core/dist/esm/components/FormSelect";
export { Label } from "@patternfly/react-core/dist/esm/components/Label";
export {
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
} from "@patternfly/react-core/dist/esm/components/Masthead";
export { Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core/dist/esm/components/Modal";
export { Nav, NavItem, NavList } from "@patternfly/react-core/dist/esm/components/Nav";
export { Page, PageSection } from "@patternfly/react-core/dist/esm/components/Page";
export { Progress } from "@patternfly/react-core/dist/esm/components/Progress";
export { SearchInput } from "@patternfly/react-core/dist/esm/components/SearchInput";
export { Skeleton } from "@patternfly/react-core/dist/esm/components/Skeleton";
export { SkipToContent } from "@patternfly/react-core/dist/esm/components/SkipToContent";
export { Switch } from "@patternfly/react-core/dist/esm/components/Switch";
export { TextArea } from "@patternfly/react-core/dist/esm/components/TextArea";
export { TextInput } from "@patternfly/react-core/dist/esm/components/TextInput";
export { ToggleGroup, ToggleGroupItem } from "@patternfly/react-core/dist/esm/components/ToggleGroup";
export { Title } from "@patternfly/react-core/dist/esm/components/Title";
