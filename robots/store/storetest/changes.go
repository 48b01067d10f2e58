package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"robotsproxy/robots/store"
)

// TestChanges tests what stores that last say of the changes of robots.txt. s must be empty, and
// it must be about [Noon] by its clock.
func TestChanges(t *testing.T, s interface {
	store.Store
	Changes(ctx context.Context, from, until time.Time, do func(store.Change)) error
}) {
	hour := func(n int) time.Time { return Noon.Add(time.Duration(n-24) * time.Hour) }
	const often, once, file = "https://often.example", "https://once.example", "https://often.example/.well-known/tdmrep.json"
	Put(t, s, TextRecord(often, "one", hour(1)), TextRecord(once, "one", hour(2)), TextRecord(file, "one", hour(1)))
	two, three := TextRecord(often, "two", hour(2)), TextRecord(often, "three", hour(4))
	Put(t, s, two)
	Put(t, s, store.Record{Origin: often, Status: 404, FetchedAt: hour(3)}, TextRecord(file, "two", hour(3)))
	Put(t, s, three)
	Put(t, s, TextRecord(often, "one", hour(5)), TextRecord(once, "one", hour(5))) // which were there before
	for _, test := range []struct {
		from, until int
		want        []string
	}{
		{0, 10, []string{change(2, 200, two.SHA256), change(3, 404, ""), change(4, 200, three.SHA256)}},
		{3, 4, []string{change(3, 404, "")}},
		{0, 2, nil},
		{5, 10, nil},
	} {
		var got []string
		err := s.Changes(t.Context(), hour(test.from), hour(test.until), func(c store.Change) {
			if c.Origin != often {
				t.Errorf("%s has changed", c.Origin)
			}
			got = append(got, change(int(c.At.Sub(hour(0)).Hours()), c.Status, c.SHA256))
		})
		slices.Sort(got)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("hours %d to %d: got %q, %v; want %q", test.from, test.until, got, err, test.want)
		}
	}
}

func change(hour, status int, sum string) string { return fmt.Sprint(hour, " ", status, " ", sum) }
