package outage

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestReports(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*Reporter)
		want []string
	}{
		"it works": {func(r *Reporter) {
			r.Begin().Succeeded()
		}, nil},
		"it fails": {func(r *Reporter) {
			r.Failed(errors.New("first"))
			r.Failed(errors.New("second"))
		}, []string{"first"}},
		"it works again, but not for long enough": {func(r *Reporter) {
			r.Failed(errors.New("first"))
			r.Begin().Succeeded()
			time.Sleep(10*time.Second - 1)
		}, []string{"first"}},
		"it works again": {func(r *Reporter) {
			r.Failed(errors.New("first"))
			r.Begin().Succeeded()
			time.Sleep(5 * time.Second)
			r.Begin().Succeeded() // puts nothing off
			time.Sleep(5 * time.Second)
		}, []string{"first", "back"}},
		"it flaps": {func(r *Reporter) {
			for range 10 {
				r.Failed(errors.New("first"))
				time.Sleep(time.Second)
				r.Begin().Succeeded()
				time.Sleep(9 * time.Second)
			}
			time.Sleep(time.Second)
		}, []string{"first", "back"}},
		"what began before the failure says nothing": {func(r *Reporter) {
			before := r.Begin()
			r.Failed(errors.New("first"))
			before.Succeeded()
			time.Sleep(time.Minute)
		}, []string{"first"}},
		"it fails once more": {func(r *Reporter) {
			for _, cause := range []string{"first", "second"} {
				r.Failed(errors.New(cause))
				r.Begin().Succeeded()
				time.Sleep(time.Minute)
			}
		}, []string{"first", "back", "second", "back"}},
		"it is closed": {func(r *Reporter) {
			r.Failed(errors.New("first"))
			r.Begin().Succeeded()
			r.Close()
			r.Failed(errors.New("second"))
			time.Sleep(time.Minute)
		}, []string{"first"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reports []string
				r := New(
					func(err error) { reports = append(reports, err.Error()) },
					func() { reports = append(reports, "back") },
				)
				defer r.Close()
				test.do(r)
				synctest.Wait()
				if !slices.Equal(reports, test.want) {
					t.Errorf("reported %q, want %q", reports, test.want)
				}
			})
		})
	}
}

func TestFailing(t *testing.T) {
	r := New(func(error) {}, func() {})
	defer r.Close()
	if r.Failing() {
		t.Error("it fails before it was tried")
	}
	before := r.Begin()
	r.Failed(errors.New("a failure"))
	if before.Succeeded(); !r.Failing() {
		t.Error("an attempt from before the failure ends it")
	}
	if r.Begin().Succeeded(); r.Failing() {
		t.Error("it still fails")
	}
}
