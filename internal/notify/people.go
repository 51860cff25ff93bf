package notify

import (
	"errors"
	"slices"
)

// ToPeople is what a mail hook has for its addresses if each message goes to the people whom its events concern.
const ToPeople = "people"

// maxMentioned is how many people a message mentions.
const maxMentioned = 20

// A Contact is how a person is reached; "" where that is not known.
type Contact struct{ Mail, Chat string }

// SetContacts says how people are reached, by their names in events. Until then, hooks to people wait.
func (c *Notifier) SetContacts(of func(person string) Contact) { c.contact = of }

func (h *Hook) toPeople() bool { return slices.Equal(h.To, []string{ToPeople}) }

// recipients returns where a mail goes; nobody if its person has no address.
func (c *Notifier) recipients(h *Hook, m message) ([]string, error) {
	switch {
	case !h.toPeople():
		return h.To, nil
	case m.Kind == "test":
		return []string{h.From}, nil
	case c.contact == nil:
		return nil, errors.New("people.csv cannot be read")
	}
	if address := c.contact(m.to).Mail; address != "" {
		return []string{address}, nil
	}
	return nil, nil
}

// chats returns the names in the chat of the people whom a message concerns.
func (c *Notifier) chats(m message) (names []string) {
	if c.contact == nil {
		return nil
	}
	for _, e := range m.Events {
		for _, who := range e.Users {
			if name := c.contact(who).Chat; name != "" && !slices.Contains(names, name) && len(names) < maxMentioned {
				names = append(names, name)
			}
		}
	}
	return names
}
