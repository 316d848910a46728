// The controllers of cert-manager that a self-signed authority and a CA need, as its packages bring them: the
// module that its releases are published as has no program. Reads KUBECONFIG and listens nowhere.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	"github.com/cert-manager/cert-manager/pkg/logs"

	// They register themselves.
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const workers = 2

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	stopped, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	logs.InitLogs()
	defer logs.FlushLogs()

	clients, err := controller.NewContextFactory(stopped, controller.ContextOptions{
		Kubeconfig: os.Getenv("KUBECONFIG"), KubernetesAPIQPS: 50, KubernetesAPIBurst: 100,
	})
	if err != nil {
		return err
	}
	ended := make(chan error)
	for _, name := range []string{
		issuers.ControllerName, approver.ControllerName, ca.CRControllerName, selfsigned.CRControllerName,
		trigger.ControllerName, keymanager.ControllerName, requestmanager.ControllerName,
		issuing.ControllerName, readiness.ControllerName, revisionmanager.ControllerName,
	} {
		loop, err := controller.Known()[name](clients)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		go func() { ended <- loop.Run(workers, stopped) }()
	}
	shared, err := clients.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(stopped.Done())
	shared.KubeSharedInformerFactory.Start(stopped.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(stopped.Done())
	fmt.Fprintln(os.Stderr, "the controllers run")
	return <-ended
}
